//! `attn bench --ops`: times of the ops around attention, with the bytes that they move.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;
use attn::indexer::{self, IndexKeys, IndexQueries, ScoresMut, TopKLists, Visible};
use attn::ops::{
    self, Append, Array, DeviceArray, Gather, HostBuffer, KvMut, KvRef, KvTransform, PageTableRows, SlotMapping,
    StateRef,
};
use attn::{DeviceBuffer, Dtype, Engine, Heads, Kv, KvScales, Out, PageOrder, Stream, Variant, cuda};
use serde_json::json;

use crate::global::Global;
use crate::output::{Output, figure, message};

/// Launches between two events: the events themselves cost little then.
const LAUNCHES: usize = 10;
const TOKENS: usize = 8192;
const HEADS: usize = 8;
const DIM: usize = 128;
const SLOTS: usize = 16;
const PAGES: usize = 1024;

struct Bench<'a> {
    engine: &'a Engine,
    stream: Stream,
    reps: usize,
    output: Output,
}

/// Times every op.
pub(crate) fn run(engine: &Engine, reps: usize, global: &Global) -> Result<ExitCode> {
    let output = Output::new(global, &["op", "us", "MB", "GB/s"])?;
    let mut bench = Bench { engine, stream: engine.stream()?, reps, output };
    bench.merges()?;
    bench.rows()?;
    bench.pages()?;
    bench.bits()?;
    bench.indexers()?;
    bench.output.finish()?;
    message!("ops timed on {engine}");
    Ok(ExitCode::SUCCESS)
}

impl Bench<'_> {
    /// Records the median time of an op that reads and writes `bytes`.
    fn time(&mut self, name: &str, bytes: usize, mut op: impl FnMut(&Stream) -> Result<(), attn::Error>) -> Result<()> {
        op(&self.stream)?;
        let mut ms = Vec::new();
        for _ in 0..self.reps {
            let elapsed = match self.stream.device() {
                Some(device) => {
                    let (start, end) = (cuda::Event::new(device)?, cuda::Event::new(device)?);
                    self.stream.record(&start)?;
                    (0..LAUNCHES).try_for_each(|_| op(&self.stream))?;
                    self.stream.record(&end)?;
                    f64::from(end.ms_since(&start)?) / LAUNCHES as f64
                }
                None => {
                    let start = Instant::now();
                    op(&self.stream)?;
                    start.elapsed().as_secs_f64() * 1e3
                }
            };
            ms.push(elapsed);
        }
        ms.sort_by(f64::total_cmp);
        let ms = ms[ms.len() / 2];
        let gbps = bytes as f64 / ms / 1e6;
        self.output.record(&json!({ "op": name, "us": ms * 1e3, "bytes": bytes, "gbps": gbps }), || {
            vec![name.to_owned(), figure(Some(ms * 1e3)), figure(Some(bytes as f64 / 1e6)), figure(Some(gbps))]
        })
    }

    fn alloc(&self, dtype: Dtype, shape: &[usize]) -> Result<DeviceBuffer> {
        Ok(self.engine.alloc(dtype, shape.iter().product())?)
    }

    fn merges(&mut self) -> Result<()> {
        let (tokens, heads) = (TOKENS / 2, 4 * HEADS);
        for states in [2, 8] {
            let (rows, many) = ([tokens, heads, DIM], [tokens, states, heads, DIM]);
            let (o, lse) = (self.alloc(Dtype::Bf16, &many)?, self.alloc(Dtype::F32, &many[..3])?);
            let (mut to, mut to_lse) = (self.alloc(Dtype::Bf16, &rows)?, self.alloc(Dtype::F32, &rows[..2])?);
            let bytes = (states + 1) * tokens * heads * (2 * DIM + 4);
            self.time(&format!("merge_states of {states}, bf16"), bytes, |stream| {
                let states = StateRef { o: o.tensor(&many)?, lse: lse.tensor(&many[..3])? };
                ops::merge_states(stream, &states, Out::with_lse(to.tensor_mut(&rows)?, to_lse.tensor_mut(&rows[..2])?))
            })?;
            if states == 2 {
                self.time("merge_state, bf16", bytes, |stream| {
                    let part = |state| -> Result<_, attn::Error> {
                        Ok(StateRef {
                            o: o.tensor(&many)?.select(1, state)?,
                            lse: lse.tensor(&many[..3])?.select(1, state)?,
                        })
                    };
                    let out = Out::with_lse(to.tensor_mut(&rows)?, to_lse.tensor_mut(&rows[..2])?);
                    ops::merge_state(stream, &part(0)?, &part(1)?, out)
                })?;
            }
        }
        Ok(())
    }

    fn rows(&mut self) -> Result<()> {
        let shape = [TOKENS, HEADS, DIM];
        let (k, v) = (self.alloc(Dtype::Bf16, &shape)?, self.alloc(Dtype::Bf16, &shape)?);
        // neighbouring tokens share pages; the pages are scattered over the pool
        let page = |token: usize| (token / SLOTS * 389) % PAGES;
        let slots: Vec<i64> = (0..TOKENS).map(|token| (page(token) * SLOTS + token % SLOTS) as i64).collect();
        let positions: Vec<i32> = (0..TOKENS as i32).collect();
        let (slots, positions) =
            (DeviceArray::upload(self.engine, &slots)?, DeviceArray::upload(self.engine, &positions)?);
        let indptr = DeviceArray::upload(self.engine, &[0, TOKENS as i32])?;
        let pages: Vec<i32> = (0..TOKENS / SLOTS).map(|n| page(n * SLOTS) as i32).collect();
        let pages = DeviceArray::upload(self.engine, &pages)?;
        let heads = Heads { qo: HEADS as u32, kv: HEADS as u32, head_dim: DIM as u32 };
        let rope = KvTransform::new(self.engine, &Variant::parse("rope")?, heads)?;
        for (order, dtype) in
            [(PageOrder::Nhd, Dtype::Bf16), (PageOrder::Hnd, Dtype::Bf16), (PageOrder::Nhd, Dtype::E4m3)]
        {
            let pool_shape = match order {
                PageOrder::Nhd => [PAGES, 2, SLOTS, HEADS, DIM],
                PageOrder::Hnd => [PAGES, 2, HEADS, SLOTS, DIM],
            };
            let mut pool = self.alloc(dtype, &pool_shape)?;
            let bytes = 2 * TOKENS * HEADS * DIM * (2 + dtype.size());
            for transform in [None, Some(&rope)] {
                let suffix = if transform.is_some() { ", rope" } else { "" };
                self.time(&format!("append, bf16 to {dtype}, {order}{suffix}"), bytes, |stream| {
                    let rows = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
                    let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: Some(positions.array()) };
                    let scales = if dtype.is_fp8() { KvScales::of(0.5, 0.5) } else { KvScales::default() };
                    let append = Append { scales, ..Append::at(slot_mapping) };
                    let mut pools = KvMut::fused(pool.tensor_mut(&pool_shape)?, order)?;
                    ops::append_paged(stream, &rows, &mut pools, &append, transform)
                })?;
            }
            let (mut k, mut v) = (self.alloc(Dtype::Bf16, &shape)?, self.alloc(Dtype::Bf16, &shape)?);
            let ends = DeviceArray::upload(self.engine, &[0, pages.array().len() as i32])?;
            self.time(&format!("gather, {dtype} to bf16, {order}"), bytes, |stream| {
                let pools = KvRef::from(Kv::paged_fused(pool.tensor(&pool_shape)?, order)?);
                let rows = PageTableRows::Csr { indptr: ends.array(), pages: pages.array() };
                let mut packed = KvMut::new(k.tensor_mut(&shape)?, v.tensor_mut(&shape)?);
                ops::gather(stream, &pools, &mut packed, &Gather::new(indptr.array(), rows))
            })?;
        }
        Ok(())
    }

    fn pages(&mut self) -> Result<()> {
        let shape = [PAGES, 2, SLOTS, HEADS, DIM];
        let page_bytes = 2 * SLOTS * HEADS * DIM * 2;
        let (from, mut to) = (self.alloc(Dtype::Bf16, &shape)?, self.alloc(Dtype::Bf16, &shape)?);
        let pairs: Vec<[i32; 2]> = (0..PAGES as i32).map(|page| [page, (page * 7 + 3) % PAGES as i32]).collect();
        let list = DeviceArray::upload(self.engine, &pairs)?;
        self.time("copy_pages_between, bf16", 2 * PAGES * page_bytes, |stream| {
            let from = KvRef::fused(from.tensor(&shape)?, PageOrder::Nhd)?;
            let mut to = KvMut::fused(to.tensor_mut(&shape)?, PageOrder::Nhd)?;
            ops::copy_pages_between(stream, &from, &mut to, &list.array(), None)
        })?;
        let mut host = HostBuffer::new(self.engine, Dtype::Bf16, shape.iter().product())?;
        let some = &pairs[..256];
        self.time("swap_out, bf16 (over the bus, once)", some.len() * page_bytes, |stream| {
            let from = KvRef::fused(from.tensor(&shape)?, PageOrder::Nhd)?;
            let mut host = KvMut::fused(host.tensor_mut(&shape)?, PageOrder::Nhd)?;
            ops::swap_out(stream, &from, &mut host, &Array::host(some))
        })?;
        self.time("swap_in, bf16 (over the bus, once)", some.len() * page_bytes, |stream| {
            let host = KvRef::fused(host.tensor(&shape)?, PageOrder::Nhd)?;
            let mut to = KvMut::fused(to.tensor_mut(&shape)?, PageOrder::Nhd)?;
            ops::swap_in(stream, &host, &mut to, &Array::host(some))
        })?;
        let (k_shape, v_shape) = ([PAGES, HEADS, DIM / 8, SLOTS, 8], [PAGES, HEADS, DIM, SLOTS]);
        let (k, v) = (self.alloc(Dtype::Bf16, &k_shape)?, self.alloc(Dtype::Bf16, &v_shape)?);
        self.time("x_packed_to_pages, bf16", 2 * PAGES * page_bytes, |stream| {
            let mut to = KvMut::fused(to.tensor_mut(&shape)?, PageOrder::Nhd)?;
            ops::x_packed_to_pages(stream, &k.tensor(&k_shape)?, &v.tensor(&v_shape)?, &mut to)
        })
    }

    fn bits(&mut self) -> Result<()> {
        let count = 1 << 26;
        let (bools, mut out) =
            (DeviceArray::<u8>::zeroed(self.engine, count)?, DeviceArray::<u8>::zeroed(self.engine, count / 8 + 64)?);
        self.time("packbits", count + count / 8, |stream| {
            ops::packbits(stream, &bools.array(), ops::BitOrder::Little, &mut out.array_mut())
        })?;
        // segments with unaligned ends
        let ends: Vec<i32> = (0..=64).map(|n| n * (count as i32 / 64) - n % 7).collect();
        let (ends, mut bytes) =
            (DeviceArray::upload(self.engine, &ends)?, DeviceArray::<i32>::zeroed(self.engine, 65)?);
        self.time("segment_packbits, 64 segments", count + count / 8, |stream| {
            let (out, bytes) = (&mut out.array_mut(), &mut bytes.array_mut());
            ops::segment_packbits(stream, &bools.array(), &ends.array(), ops::BitOrder::Little, out, bytes)
        })
    }

    /// The indexer of DeepSeek-V3.2 (64 heads) and that of MiniMax-M3 (4 heads, 128 keys a block), decoding. Bytes are
    /// those of index keys; those of a choice are its scores.
    fn indexers(&mut self) -> Result<()> {
        const COPIES: usize = 8;
        for (requests, keys) in [(64, 4096), (1, 65_536)] {
            let sums = |each: usize| -> Vec<i32> { (0..=requests).map(|n| (n * each) as i32).collect() };
            let (qo_indptr, kv_indptr) =
                (DeviceArray::upload(self.engine, &sums(1))?, DeviceArray::upload(self.engine, &sums(keys))?);
            // runs alternate between copies, so that no keys are in the L2
            let of_keys = [requests * keys, DIM];
            let copies = (0..COPIES).map(|_| self.alloc(Dtype::Bf16, &of_keys)).collect::<Result<Vec<_>>>()?;
            let mut round = 0;
            for heads in [64, 4] {
                indexer::prepare(self.engine, Dtype::Bf16, heads, DIM)?;
                let (blocks, columns) = if heads == 4 { (true, keys / 128) } else { (false, keys) };
                let (q, weights) =
                    (self.alloc(Dtype::Bf16, &[requests, heads, DIM])?, vec![0.125f32; requests * heads]);
                let weights = self.engine.upload(&weights)?;
                let lists = if blocks { requests * heads } else { requests };
                let values: Vec<f32> = (0..lists * columns).map(|i| (i * 7919 % 65_537) as f32).collect();
                let mut scores = self.engine.upload(&values)?;
                let mut counts = DeviceArray::upload(self.engine, &vec![columns as i32; requests])?;
                let name = format!("{requests} x {keys} keys, {heads} heads");
                let shape = if blocks { vec![requests, heads, columns] } else { vec![requests, columns] };
                let capacity = if blocks { 16 } else { 2048 };
                let (mut to, mut lens) =
                    (DeviceArray::zeroed(self.engine, lists * capacity)?, DeviceArray::zeroed(self.engine, lists)?);
                self.time(&format!("select, {name}"), 4 * values.len(), |stream| {
                    let (scores, mut out) = (scores.tensor(&shape)?, TopKLists::new(to.array_mut(), lens.array_mut()));
                    match blocks {
                        true => indexer::select_pages(stream, &scores, &counts.array(), 0, 1, &mut out),
                        false => indexer::select_tokens(stream, &scores, &counts.array(), &mut out),
                    }
                })?;
                self.time(&format!("scores, {name}"), requests * keys * DIM * 2, |stream| {
                    let queries = IndexQueries {
                        q: q.tensor(&[requests, heads, DIM])?,
                        qo_indptr: qo_indptr.array(),
                        visible: Visible::Causal,
                    };
                    round = (round + 1) % COPIES;
                    let keys = copies[round].tensor(&of_keys)?;
                    let keys = IndexKeys::Ragged { keys, kv_indptr: kv_indptr.array() };
                    let mut out = ScoresMut::new(scores.tensor_mut(&shape)?, counts.array_mut());
                    match blocks {
                        true => indexer::block_scores(stream, &queries, &keys, 128, &mut out),
                        false => {
                            let weights = weights.tensor(&[requests, heads])?;
                            indexer::index_scores(stream, &queries, &weights, &keys, &mut out)
                        }
                    }
                })?;
            }
        }
        Ok(())
    }
}
