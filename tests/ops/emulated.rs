//! The kernels of ops, emulated on the host with threads in random order, against the CPU: equal, except for merges and
//! transforms, which are within a tolerance.

mod queries;

use attn_core::Variant;
use attn_core::dtype::Dtype;
use attn_core::lang::{F8E4M3, F8E5M2};
use attn_core::ops::append::{self, Transform};
use attn_core::ops::{
    Append, Array, Gather, KvMut, KvRef, PageTableRows, SlotMapping, StateMut, StateRef, gather, lse, merge,
};
use attn_core::spec::Heads;
use attn_core::tensor::{Element, KvScales, Out, Scale, TensorMut, TensorRef};
use attn_kernels::launch::{
    FastDiv, MergeParams, MergeStates, OP_THREADS, RowTiling, RowsParams, RowsPart, ScaleLseParams, Strided,
    TensorRowsParams,
};
use attn_kernels::splice::Op;
use attn_tests::host::words;
use attn_tests::simt::HostOp;
use attn_tests::synthetic::values;
use attn_tests::tolerance::{self, ulp};
use half::{bf16, f16};

/// A packed tensor.
#[derive(Clone)]
struct Data {
    dtype: Dtype,
    /// Aligned for all types.
    words: Vec<u64>,
    bytes: usize,
}

impl Data {
    fn of(dtype: Dtype, values: &[f32]) -> Data {
        fn bytes<T: Element>(values: &[f32]) -> Vec<u8> {
            values.iter().flat_map(|&x| bytemuck::bytes_of(&T::from_f32(x)).to_vec()).collect()
        }
        let bytes = match dtype {
            Dtype::F16 => bytes::<f16>(values),
            Dtype::Bf16 => bytes::<bf16>(values),
            Dtype::F32 => bytes::<f32>(values),
            Dtype::E4m3 => bytes::<F8E4M3>(values),
            Dtype::E5m2 => bytes::<F8E5M2>(values),
            Dtype::U8 => values.iter().map(|&x| x as u8).collect(),
        };
        Data { dtype, words: words(&bytes), bytes: bytes.len() }
    }
    fn poisoned(dtype: Dtype, count: usize) -> Data {
        Data::of(dtype, &vec![f32::NAN; count])
    }
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }
    fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }
    fn tensor(&self, shape: &[usize]) -> TensorRef<'_> {
        TensorRef::of_bytes(self.dtype, self.bytes(), shape).expect("it has as many elements")
    }
    fn tensor_mut(&mut self, shape: &[usize]) -> TensorMut<'_> {
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[..self.bytes];
        TensorMut::of_bytes(self.dtype, bytes, shape).expect("it has as many elements")
    }
    fn values(&self) -> Vec<f32> {
        fn all<T: Element>(bytes: &[u8]) -> Vec<f32> {
            bytemuck::cast_slice(bytes).iter().map(|x: &T| x.to_f32()).collect()
        }
        match self.dtype {
            Dtype::F16 => all::<f16>(self.bytes()),
            Dtype::Bf16 => all::<bf16>(self.bytes()),
            Dtype::F32 => all::<f32>(self.bytes()),
            Dtype::E4m3 => all::<F8E4M3>(self.bytes()),
            Dtype::E5m2 => all::<F8E5M2>(self.bytes()),
            Dtype::U8 => self.bytes().iter().map(|&x| x.into()).collect(),
        }
    }
}

/// Fails where two results differ by more than a tolerance relative to the value.
fn agree(what: &str, got: &Data, want: &Data, tolerance: f32) {
    tolerance::agree(what, &got.values(), &want.values(), tolerance);
}

fn tiling(heads: usize, chunks: usize) -> RowTiling {
    let rows = (OP_THREADS as usize / chunks.max(1)).max(1);
    RowTiling { heads: FastDiv::new(heads as u32), chunks: FastDiv::new(chunks as u32), rows: rows as i32, pad: 0 }
}

const HEADS: usize = 3;
const PAGES: usize = 9;
const PAGE_SIZE: usize = 5;
/// Each slot of the pool at most once, some padding.
const SLOTS: [i64; 14] = [44, 0, -1, 7, 12, 13, 14, -5, 31, 30, 2, 20, 43, 9];
const TOKENS: usize = SLOTS.len();

/// The parameters of rows of packed tensors and of pools (pages, slots, heads, dim), and the number of the kernel.
fn rows(packed: [&Data; 2], pools: [&Data; 2], dim: usize, scales: [(f32, u64); 2]) -> (RowsParams, usize) {
    let chunk = 16 / packed[0].dtype.size().min(pools[0].dtype.size());
    let wide = dim.is_multiple_of(chunk);
    let (token, head) = ((HEADS * dim) as i64, dim as i64);
    let part = |at: usize| RowsPart {
        packed: Strided { data: packed[at].address(), token, head, page: 0 },
        pool: Strided { data: pools[at].address(), token, head, page: token * PAGE_SIZE as i64 },
        scales: scales[at].1,
        share: tiling(HEADS, if wide { dim / chunk } else { dim }),
        dim: dim as i32,
        scale: scales[at].0,
        raw: i32::from(packed[at].dtype == pools[at].dtype && scales[at] == (1.0, 0)),
        pad: 0,
    };
    let params = RowsParams {
        part: [part(0), part(1)],
        tokens: TOKENS as i64,
        num_pages: PAGES as i64,
        page_size: FastDiv::new(PAGE_SIZE as u32),
        ..RowsParams::default()
    };
    (params, usize::from(!wide))
}

const PACKED: [usize; 2] = [TOKENS, HEADS];
const POOL: [usize; 3] = [PAGES, PAGE_SIZE, HEADS];

/// Source and destination types of appends: every pair of a float with any type.
fn conversions() -> Vec<(Dtype, Dtype)> {
    let floats = [Dtype::F16, Dtype::Bf16, Dtype::F32];
    floats.into_iter().flat_map(|from| Dtype::ALL.map(|to| (from, to))).chain([(Dtype::E4m3, Dtype::E4m3)]).collect()
}

#[test]
fn appends_and_gathers() {
    for (from, to) in conversions() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let appends = HostOp::compile(Op::Append { from, to }, "RowsParams", folders[0].path());
        let gathers = HostOp::compile(Op::Gather { from: to, to: from }, "RowsParams", folders[1].path());
        for (dim, scaled) in [(128, false), (80, !from.is_fp8()), (7, !from.is_fp8())] {
            let name = format!("{from} to {to}, {dim}, scaled: {scaled}");
            // with values past the largest fp8 value, and NaN
            let large = |seed| {
                let all = values(TOKENS * HEADS * dim, seed).into_iter().enumerate();
                all.map(|(i, x)| if i % 97 == 5 { f32::NAN } else { x * x * x * 100.0 }).collect::<Vec<_>>()
            };
            let [k, v] = [1, 2].map(|seed| Data::of(from, &large(seed)));
            let heads = [0.3f32, 1.0, 77.0];
            let scales = || match scaled {
                true => KvScales {
                    k: Scale { all: 1.7, heads: Some(TensorRef::host(&heads, &[HEADS]).expect("three")) },
                    v: Scale::of(0.01),
                },
                false => KvScales::default(),
            };
            let numbers = if scaled { [(1.7, heads.as_ptr() as u64), (0.01, 0)] } else { [(1.0, 0); 2] };
            let (packed, paged) = ([PACKED[0], PACKED[1], dim], [POOL[0], POOL[1], POOL[2], dim]);
            let pool = || Data::poisoned(to, PAGES * PAGE_SIZE * HEADS * dim);
            let (mut want, got) = ([pool(), pool()], [pool(), pool()]);
            let slot_mapping = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: None };
            {
                let new = KvRef::new(k.tensor(&packed), v.tensor(&packed));
                let [k_pool, v_pool] = &mut want;
                let mut pools = KvMut::new(k_pool.tensor_mut(&paged), v_pool.tensor_mut(&paged));
                let how = Append { scales: scales(), ..Append::at(slot_mapping) };
                append::append(&new, &mut pools, &how, None).expect("sound");
            }
            let (params, narrow) = rows([&k, &v], [&got[0], &got[1]], dim, numbers);
            // two more slots, outside of the pool, are skipped
            let slots = SLOTS.map(|slot| if slot == -5 { 45 } else { slot });
            let mut status = 0u32;
            let params = RowsParams { slots: slots.as_ptr() as u64, status: &raw mut status as u64, ..params };
            let ctas = |params: &RowsParams| (TOKENS * HEADS).div_ceil(params.part[0].share.rows as usize) as u32;
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { appends.run(Op::Append { from, to }.kernels()[narrow], &params, None, [ctas(&params), 2], 0) };
            assert_eq!(status, 1, "{name}");
            got.iter().zip(&want).for_each(|(got, want)| agree(&name, got, want, 0.0));

            let name = format!("{name}, gathered");
            let (indptr, pages, ends) = ([0, 3, 3, 4], [8, 2, 5, 0], [0, 9, 9, 13]);
            let table = PageTableRows::Csr { indptr: Array::host(&indptr), pages: Array::host(&pages) };
            let back = || Data::poisoned(from, TOKENS * HEADS * dim);
            let (mut want, gathered) = ([back(), back()], [back(), back()]);
            {
                let pools = KvRef::new(got[0].tensor(&paged), got[1].tensor(&paged));
                let [k, v] = &mut want;
                let mut back = KvMut::new(k.tensor_mut(&packed), v.tensor_mut(&packed));
                let how = Gather { scales: scales(), ..Gather::new(Array::host(&ends), table) };
                gather::gather(&pools, &mut back, &how).expect("sound");
            }
            let (params, narrow) = rows([&gathered[0], &gathered[1]], [&got[0], &got[1]], dim, numbers);
            let params = RowsParams {
                indptr: ends.as_ptr() as u64,
                page_indptr: indptr.as_ptr() as u64,
                pages: pages.as_ptr() as u64,
                entries: pages.len() as i64,
                num_requests: 3,
                ..params
            };
            let kernel = Op::Gather { from: to, to: from }.kernels()[narrow];
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { gathers.run(kernel, &params, None, [ctas(&params), 2], 0) };
            gathered.iter().zip(&want).for_each(|(got, want)| agree(&name, got, want, 0.0));
        }
    }
}

/// Requests and positions of tokens: in every page of a request, in its first page and slot, and some that no slot
/// belongs to, either padding or past what there is.
const POSITIONS: [(i32, i32); TOKENS] = [
    (0, 0),
    (0, 4),
    (0, 5),
    (0, 14),
    (0, 15), // one page too many
    (1, 0),  // a request without pages
    (2, 4),
    (2, 5),
    (2, -1),
    (-1, 3),
    (3, 9),
    (3, 10), // past the end of the table
    (4, 0),  // no such request
    (3, i32::MAX),
];

#[test]
fn appends_by_position() {
    let (dtype, dim) = (Dtype::F16, 16);
    let folder = tempfile::tempdir().expect("a folder");
    let op = Op::Append { from: dtype, to: dtype };
    let appends = HostOp::compile(op, "RowsParams", folder.path());
    let [k, v] = [1, 2].map(|seed| Data::of(dtype, &values(TOKENS * HEADS * dim, seed)));
    let pool = || Data::poisoned(dtype, PAGES * PAGE_SIZE * HEADS * dim);
    // pages of each request: in rows of any length, and in rows of three
    let (indptr, pages, padded) = ([0, 3, 3, 4, 6], [8, 2, 5, 0, 7, 3], [8, 2, 5, -1, -1, 9, 0, -1, 9, 7, 3, -1]);
    let counts: Vec<i32> = indptr.windows(2).map(|ends| ends[1] - ends[0]).collect();
    let slot = |(request, position): (i32, i32)| {
        let page = position / PAGE_SIZE as i32;
        let known = request >= 0 && position >= 0 && counts.get(request as usize).is_some_and(|&count| page < count);
        let first = || indptr[request as usize] + page;
        if known { i64::from(pages[first() as usize] * PAGE_SIZE as i32 + position % PAGE_SIZE as i32) } else { -1 }
    };
    let slots = POSITIONS.map(slot);
    let mut want = [pool(), pool()];
    let (packed, paged) = ([PACKED[0], PACKED[1], dim], [POOL[0], POOL[1], POOL[2], dim]);
    {
        let new = KvRef::new(k.tensor(&packed), v.tensor(&packed));
        let [k_pool, v_pool] = &mut want;
        let mut pools = KvMut::new(k_pool.tensor_mut(&paged), v_pool.tensor_mut(&paged));
        let slots = SlotMapping::Slots { slots: Array::host(&slots), positions: None };
        append::append(&new, &mut pools, &Append::at(slots), None).expect("sound");
    }
    let (requests, positions) = (POSITIONS.map(|(request, _)| request), POSITIONS.map(|(_, position)| position));
    for csr in [true, false] {
        let got = [pool(), pool()];
        let mut status = 0u32;
        let (params, narrow) = rows([&k, &v], [&got[0], &got[1]], dim, [(1.0, 0); 2]);
        let params = RowsParams {
            requests: requests.as_ptr() as u64,
            positions: positions.as_ptr() as u64,
            page_indptr: if csr { indptr.as_ptr() as u64 } else { 0 },
            pages: if csr { pages.as_ptr() as u64 } else { padded.as_ptr() as u64 },
            entries: if csr { pages.len() } else { padded.len() } as i64,
            max_pages: 3,
            num_requests: 4,
            status: &raw mut status as u64,
            ..params
        };
        let ctas = (TOKENS * HEADS).div_ceil(params.part[0].share.rows as usize) as u32;
        // SAFETY: the arrays have the extents of the parameters.
        unsafe { appends.run(op.kernels()[narrow], &params, None, [ctas, 2], 0) };
        // padding is not counted
        assert_eq!(status, 6, "compressed: {csr}");
        got.iter().zip(&want).for_each(|(got, want)| agree(&format!("compressed: {csr}"), got, want, 0.0));
    }
}

#[test]
fn appends_through_transforms() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    // a scale and a position of each new row, with room for three more
    let scales: Vec<_> = (0..TOKENS + 3).map(|row| vec![1.0 + row as f32 / 8.0; HEADS]).collect();
    let positions: Vec<_> = (0..TOKENS + 3).map(|row| row * 29 % 64).collect();
    let positions = format!("positions(of_query={positions:?}, of_key={positions:?})");
    let by_row = format!("remap({positions}, rope) + token_scales(k={scales:?}, v={scales:?})");
    let variants =
        ["rope", "qk_norm + rope(interleaved=true)", "rope(rotary_dim=32) + value_norm", &by_row, "hadamard"];
    for (at, variant) in variants.into_iter().enumerate() {
        let (from, to) = [
            (Dtype::Bf16, Dtype::Bf16),
            (Dtype::F16, Dtype::E4m3),
            (Dtype::F32, Dtype::F32),
            (Dtype::Bf16, Dtype::F16),
            (Dtype::F32, Dtype::F32),
        ][at];
        let of = Variant::parse(variant).expect("stock");
        let folder = tempfile::tempdir().expect("a folder");
        let op = HostOp::transform(&of, from, to, folder.path());
        // a Hadamard transform takes powers of two
        for dim in [128usize, if variant == "hadamard" { 32 } else { 34 }] {
            let name = format!("{variant}: {from} to {to}, {dim}");
            let heads = Heads { qo: 6, kv: HEADS as u32, head_dim: dim as u32 };
            let through = Transform::new(&of, heads).expect("known");
            let [k, v] = [1, 2].map(|seed| Data::of(from, &values(TOKENS * HEADS * dim, seed)));
            let (packed, paged) = ([PACKED[0], PACKED[1], dim], [POOL[0], POOL[1], POOL[2], dim]);
            let pool = || Data::poisoned(to, PAGES * PAGE_SIZE * HEADS * dim);
            let (mut want, got) = ([pool(), pool()], [pool(), pool()]);
            let positions: Vec<i32> = (0..TOKENS as i32).map(|i| i * 311).collect();
            let slots = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: Some(Array::host(&positions)) };
            {
                let new = KvRef::new(k.tensor(&packed), v.tensor(&packed));
                let [k_pool, v_pool] = &mut want;
                let mut pools = KvMut::new(k_pool.tensor_mut(&paged), v_pool.tensor_mut(&paged));
                append::append(&new, &mut pools, &Append::at(slots), Some(&through)).expect("sound");
            }
            let (mut params, narrow) = rows([&k, &v], [&got[0], &got[1]], dim, [(1.0, 0); 2]);
            (0..2).filter(|&part| through.applies_to(part)).for_each(|part| params.part[part].raw = 0);
            (params.slots, params.positions) = (SLOTS.as_ptr() as u64, positions.as_ptr() as u64);
            let kernel = attn_kernels::splice::TRANSFORM_KERNELS[narrow];
            let ctas = (TOKENS * HEADS).div_ceil(params.part[0].share.rows.min(32) as usize) as u32;
            let bytes = OP_THREADS / 32 * dim as u32 * 4;
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { op.run(kernel, &params, Some(through.variant()), [ctas, 2], bytes) };
            got.iter().zip(&want).for_each(|(got, want)| agree(&name, got, want, 1.01 * ulp(to)));
        }
    }
}

#[test]
fn rows_of_tensors() {
    let aligned = |bytes: &[u8]| {
        let mut words = vec![0u128; bytes.len().div_ceil(16)];
        bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        words
    };
    let folder = tempfile::tempdir().expect("a folder");
    let op = HostOp::compile(Op::TensorRows, "TensorRowsParams", folder.path());
    let indices: [i32; 7] = [3, -1, 0, 9, 12, 8, i32::MAX];
    for (number, word) in [16usize, 4, 2, 1].into_iter().enumerate() {
        for words in [1usize, 3, 80] {
            let bytes = word * words;
            let from: Vec<u8> = (0..indices.len() * bytes).map(|i| (i * 7 % 251) as u8).collect();
            let (from, mut to, mut status) = (aligned(&from), aligned(&vec![255; 10 * bytes]), 0u32);
            let row = |row: usize| bytemuck::cast_slice::<u128, u8>(&from)[row * bytes..][..bytes].to_vec();
            let mut want = vec![255u8; 10 * bytes];
            for (at, &index) in indices.iter().enumerate().filter(|&(_, &index)| (0..10).contains(&index)) {
                want[index as usize * bytes..][..bytes].copy_from_slice(&row(at));
            }
            let params = TensorRowsParams {
                from: from.as_ptr() as u64,
                to: to.as_mut_ptr() as u64,
                indices: indices.as_ptr() as u64,
                status: (&raw mut status) as u64,
                rows: indices.len() as i64,
                extent: 10,
                words: FastDiv::new(words as u32),
                pad: 0,
            };
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { op.run(Op::TensorRows.kernels()[number], &params, None, [2, 1], 0) };
            assert_eq!(bytemuck::cast_slice::<u128, u8>(&to)[..10 * bytes], want, "{words} words of {word}");
            assert_eq!(status, 2, "two rows are past the end");
        }
    }
}

/// Log-sum-exps of which every fourth has no keys, and outputs that are NaN there.
fn states(dtype: Dtype, rows: usize, dim: usize, seed: u32) -> (Data, Data) {
    let (mut o, mut lse) = (values(rows * dim, seed), values(rows, seed + 1));
    lse.iter_mut().for_each(|x| *x *= 20.0);
    for row in (seed as usize % 3..rows).step_by(4) {
        lse[row] = f32::NEG_INFINITY;
        o[row * dim..][..dim].fill(f32::NAN);
    }
    (Data::of(dtype, &o), Data::of(Dtype::F32, &lse))
}

#[test]
fn merges() {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        let folder = tempfile::tempdir().expect("a folder");
        let op = HostOp::compile(Op::Merge(dtype), "MergeParams", folder.path());
        for (tokens, dim) in [(37, 128), (5, 80), (3, 576), (4, 7)] {
            let (rows, shape) = (tokens * HEADS, [tokens, HEADS, dim]);
            let memory = |o: &Data, lse: &Data, states: usize| MergeStates {
                o: o.address(),
                lse: lse.address(),
                o_token: (states * HEADS * dim) as i64,
                o_state: (HEADS * dim) as i64,
                o_head: dim as i64,
                lse_token: (states * HEADS) as i64,
                lse_state: HEADS as i64,
                lse_head: 1,
            };
            let wide = (dim * dtype.size()).is_multiple_of(16);
            let share = tiling(HEADS, if wide { dim * dtype.size() / 16 } else { dim });
            let run = |params: MergeParams| {
                let params = MergeParams { rows: rows as i64, share, ..params };
                let ctas = rows.div_ceil(share.rows as usize) as u32;
                // SAFETY: the arrays have the extents of the parameters.
                unsafe { op.run(Op::Merge(dtype).kernels()[usize::from(!wide)], &params, None, [ctas, 1], 0) };
            };
            for count in [0, 1, 2, 5] {
                let name = format!("{count} states of {dtype} {shape:?}");
                let (o, lse) = states(dtype, rows * count, dim, 5);
                let out = || (Data::poisoned(dtype, rows * dim), Data::poisoned(Dtype::F32, rows));
                let (mut want, got) = (out(), out());
                let many =
                    StateRef { o: o.tensor(&[tokens, count, HEADS, dim]), lse: lse.tensor(&[tokens, count, HEADS]) };
                let mut to = Out::with_lse(want.0.tensor_mut(&shape), want.1.tensor_mut(&shape[..2]));
                merge::merge_states(&many, &mut to).expect("sound");
                run(MergeParams {
                    many: memory(&o, &lse, count),
                    out: memory(&got.0, &got.1, 1),
                    states: count as i32,
                    ..MergeParams::default()
                });
                agree(&name, &got.0, &want.0, ulp(dtype));
                agree(&name, &got.1, &want.1, 1e-5);
            }
            let name = format!("in index, {dtype} {shape:?}");
            let ((a, a_lse), (b, b_lse)) = (states(dtype, rows, dim, 3), states(dtype, rows, dim, 4));
            let mask: Vec<u8> = (0..tokens).map(|token| (token % 3) as u8).collect();
            let (mut want, mut want_lse) = (a.clone(), a_lse.clone());
            let mut state = StateMut { o: want.tensor_mut(&shape), lse: want_lse.tensor_mut(&shape[..2]) };
            let other = StateRef { o: b.tensor(&shape), lse: b_lse.tensor(&shape[..2]) };
            merge::merge_state_in_place(&mut state, &other, Some(&Array::host(&mask))).expect("sound");
            run(MergeParams {
                many: memory(&a, &a_lse, 1),
                other: memory(&b, &b_lse, 1),
                out: memory(&a, &a_lse, 1),
                mask: mask.as_ptr() as u64,
                states: 1,
                others: 1,
                ..MergeParams::default()
            });
            agree(&name, &a, &want, ulp(dtype));
            agree(&name, &a_lse, &want_lse, 1e-5);
        }
    }
}

#[test]
fn log_sum_exps_are_scaled() {
    let folder = tempfile::tempdir().expect("a folder");
    let op = HostOp::compile(Op::Lse, "ScaleLseParams", folder.path());
    let got = states(Dtype::F32, 1000, 1, 7).1;
    let mut want = got.clone();
    lse::scale(&mut want.tensor_mut(&[100, 10]), 1.5).expect("sound");
    let params =
        ScaleLseParams { lse: got.address(), token: 10, head: 1, count: 1000, heads: FastDiv::new(10), factor: 1.5 };
    // SAFETY: the array has as many elements.
    unsafe { op.run(Op::Lse.kernels()[0], &params, None, [1000u32.div_ceil(OP_THREADS), 1], 0) };
    agree("log-sum-exps", &got, &want, 0.0);
}
