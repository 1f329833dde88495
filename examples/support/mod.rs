//! Shared by the examples: synthetic rows, a paged KV cache, and reference attention.

#![allow(dead_code)] // each example uses some of it

use attn::{Error, Stream, batch::PageTableBuf, ops, prelude::*, random};
use attn_core::cpu::{Problem, oracle};
use attn_core::plan::WorkList;

/// The result of an example.
pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(crate) const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
/// The page size in keys.
pub(crate) const PAGE: usize = 16;
/// The tolerance for f16 keys, values and outputs.
pub(crate) const TOLERANCE: f64 = 2e-3;

/// The number of elements of a token's queries.
pub(crate) fn q_width() -> usize {
    (HEADS.qo * HEADS.head_dim) as usize
}

/// The number of elements of a token's keys, or values.
pub(crate) fn kv_width() -> usize {
    (HEADS.kv * HEADS.head_dim) as usize
}

/// A synthetic row of a token, with mean 0 and standard deviation 1, by the seed.
pub(crate) fn row(seed: u64, token: usize, width: usize) -> Vec<f16> {
    let uniform = |i: usize, j| random::uniform(seed as u32, token as u32, i as u32, j);
    (0..width).map(|i| f16::from_f32((uniform(i, 0) + uniform(i, 1) + uniform(i, 2) - 1.5) * 2.0)).collect()
}

/// The queries of a token of a text.
pub(crate) fn q_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text, token, q_width())
}

/// The keys of a token of a text.
pub(crate) fn k_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text + 1, token, kv_width())
}

/// The values of a token of a text.
pub(crate) fn v_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text + 2, token, kv_width())
}

/// Pools of (pages, slots, kv_heads, head_dim), and the list of free pages. Slots without a key are NaN, and must not
/// matter.
pub(crate) struct Cache {
    engine: Engine,
    k: DeviceBuffer,
    v: DeviceBuffer,
    free: Vec<i32>,
    pages: usize,
}

impl Cache {
    pub(crate) fn new(engine: &Engine, pages: usize) -> Fallible<Self> {
        let unused = vec![f16::NAN; pages * PAGE * kv_width()];
        // not in the order of memory: 7 is coprime to the page counts of the examples
        let free = (0..pages).map(|i| (i * 7 % pages) as i32).collect();
        Ok(Cache { engine: engine.clone(), k: engine.upload(&unused)?, v: engine.upload(&unused)?, free, pages })
    }

    /// The number of free pages.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// The number of pages.
    pub(crate) fn pages(&self) -> u32 {
        self.pages as u32
    }

    /// Allocates a page.
    pub(crate) fn allocate(&mut self) -> Fallible<i32> {
        Ok(self.free.pop().ok_or("the pool is full")?)
    }

    /// Allocates `count` pages.
    pub(crate) fn allocate_many(&mut self, count: usize) -> Fallible<Vec<i32>> {
        (0..count).map(|_| self.allocate()).collect()
    }

    /// Frees pages.
    pub(crate) fn release(&mut self, pages: impl IntoIterator<Item = i32>) {
        self.free.extend(pages);
    }

    /// Appends the keys and values of one or several consecutive tokens to the `pages` of a request.
    pub(crate) fn append(&mut self, stream: &Stream, pages: &[i32], first: usize, k: &[f16], v: &[f16]) -> Fallible {
        let shape = [k.len() / kv_width(), HEADS.kv as usize, HEADS.head_dim as usize];
        let slot = |position: usize| i64::from(pages[position / PAGE]) * PAGE as i64 + (position % PAGE) as i64;
        let slots = ops::DeviceArray::upload(&self.engine, &(first..first + shape[0]).map(slot).collect::<Vec<_>>())?;
        let (k, v) = (self.engine.upload(k)?, self.engine.upload(v)?);
        let rows = ops::KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
        let pool = self.shape();
        let mut pools = ops::KvMut::new(self.k.tensor_mut(&pool)?, self.v.tensor_mut(&pool)?);
        let slot_mapping = ops::SlotMapping::Slots { slots: slots.array(), positions: None };
        ops::append_paged(stream, &rows, &mut pools, &ops::Append::at(slot_mapping), None)?;
        Ok(())
    }

    /// (pages, slots, kv_heads, head_dim).
    fn shape(&self) -> [usize; 4] {
        [self.pages, PAGE, HEADS.kv as usize, HEADS.head_dim as usize]
    }

    /// The pools as an argument of a run.
    pub(crate) fn kv(&self) -> Result<Kv<'_>, Error> {
        let shape = self.shape();
        Ok(Kv::paged(self.k.tensor(&shape)?, self.v.tensor(&shape)?))
    }

    /// The page table of requests, given by the pages and the number of keys of each.
    pub(crate) fn table<'a>(&self, requests: impl IntoIterator<Item = (&'a [i32], usize)>) -> PageTableBuf {
        let (mut lens, mut pages) = (Vec::new(), Vec::new());
        for (of, keys) in requests {
            lens.push(keys as u32);
            pages.extend_from_slice(&of[..keys.div_ceil(PAGE)]);
        }
        let mut next = pages.into_iter();
        PageTableBuf::from_lens(&lens, PAGE as u32, self.pages(), || next.next().unwrap_or(-1))
    }
}

/// Reference attention of one token, by the library's reference in f64: `rows` gives the keys and values of the tokens
/// that a KV head attends to.
pub(crate) fn reference(q: &[f16], rows: impl Fn(usize) -> Vec<(Vec<f16>, Vec<f16>)>) -> Fallible<Vec<f64>> {
    let (dim, group) = (HEADS.head_dim as usize, (HEADS.qo / HEADS.kv) as usize);
    let of_head = |row: &[f16], kv_head: usize| row[kv_head * dim..][..dim].to_vec();
    let mut out = Vec::with_capacity(q.len());
    for kv_head in 0..HEADS.kv as usize {
        let rows = rows(kv_head);
        let (k, v): (Vec<_>, Vec<_>) = rows.iter().map(|(k, v)| (of_head(k, kv_head), of_head(v, kv_head))).unzip();
        let (k, v, shape) = (k.concat(), v.concat(), [rows.len(), 1, dim]);
        let heads = Heads { qo: group as u32, kv: 1, ..HEADS };
        let problem = Problem {
            variant: &Variant::full(),
            heads,
            head_dim_vo: HeadDimVo::Same,
            sm_scale: heads.default_sm_scale(),
            layout: &Batch::ragged(&[0, 1], &[0, rows.len() as i32]).validate()?,
            work: &WorkList::default(), // the oracle does not split the work
            q: TensorRef::host(&q[kv_head * group * dim..][..group * dim], &[1, group, dim])?,
            kv: Kv::ragged(TensorRef::host(&k, &shape)?, TensorRef::host(&v, &shape)?),
        };
        out.extend(oracle(&problem)?.o);
    }
    Ok(out)
}

/// The relative Frobenius error.
pub(crate) fn error(got: &[f16], want: &[f64]) -> f64 {
    let (diff, norm) = got
        .iter()
        .zip(want)
        .fold((0.0, 0.0), |(diff, norm), (&got, &want)| (diff + (f64::from(got) - want).powi(2), norm + want * want));
    (diff / norm).sqrt()
}

/// Fails the example if an error is too large or NaN.
pub(crate) fn check(what: &str, error: f64) -> Fallible {
    if error < TOLERANCE {
        Ok(())
    } else {
        Err(format!("{what}: the error is {error:.1e}, above {TOLERANCE:.0e}").into())
    }
}
