//! What the examples share: made-up rows, a cache in pages, attention by its definition.

#![allow(dead_code)] // each example uses some of it

use attn::{Error, Stream, batch::PageTableBuf, ops, prelude::*};

/// What an example ends with.
pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(crate) const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
/// Keys of a page.
pub(crate) const PAGE: usize = 16;
/// The error that f16 keys, values and outputs are good to.
pub(crate) const TOLERANCE: f64 = 2e-3;

/// Elements of a token's queries.
pub(crate) fn q_width() -> usize {
    (HEADS.qo * HEADS.head_dim) as usize
}

/// Elements of a token's keys, and of its values.
pub(crate) fn kv_width() -> usize {
    (HEADS.kv * HEADS.head_dim) as usize
}

/// What a projection would give for a token: numbers with mean 0 and standard deviation 1, by the seed.
pub(crate) fn row(seed: u64, token: usize, width: usize) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (token as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    };
    (0..width).map(|_| f16::from_f32((uniform() + uniform() + uniform() - 1.5) * 2.0)).collect()
}

/// Queries, keys and values of a token of a text.
pub(crate) fn q_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text, token, q_width())
}

/// As [`q_row`].
pub(crate) fn k_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text + 1, token, kv_width())
}

/// As [`q_row`].
pub(crate) fn v_row(text: u64, token: usize) -> Vec<f16> {
    row(3 * text + 2, token, kv_width())
}

/// Pools of (pages, slots, kv_heads, head_dim), and which of their pages nobody has. What no key fills is NaN, and must not matter.
pub(crate) struct Cache {
    engine: Engine,
    k: DeviceBuffer,
    v: DeviceBuffer,
    free: Vec<i32>,
    pages: usize,
}

impl Cache {
    pub(crate) fn new(engine: &Engine, pages: usize) -> Fallible<Self> {
        let nothing = vec![f16::NAN; pages * PAGE * kv_width()];
        // in an order that is not that of memory: 7 shares no factor with the counts that the examples use
        let free = (0..pages).map(|i| (i * 7 % pages) as i32).collect();
        Ok(Cache { engine: engine.clone(), k: engine.upload(&nothing)?, v: engine.upload(&nothing)?, free, pages })
    }

    /// How many pages are free.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> u32 {
        self.pages as u32
    }

    /// A page that nobody has.
    pub(crate) fn take(&mut self) -> Fallible<i32> {
        Ok(self.free.pop().ok_or("the pool is full")?)
    }

    /// So many pages that nobody has.
    pub(crate) fn take_many(&mut self, count: usize) -> Fallible<Vec<i32>> {
        (0..count).map(|_| self.take()).collect()
    }

    /// Pages that are free again.
    pub(crate) fn give_back(&mut self, pages: impl IntoIterator<Item = i32>) {
        self.free.extend(pages);
    }

    /// Writes the keys and values of a token, or of several in a row, where `pages`, those of a request, map them.
    pub(crate) fn append(&mut self, stream: &Stream, pages: &[i32], first: usize, k: &[f16], v: &[f16]) -> Fallible {
        let shape = [k.len() / kv_width(), HEADS.kv as usize, HEADS.head_dim as usize];
        let slot = |place: usize| i64::from(pages[place / PAGE]) * PAGE as i64 + (place % PAGE) as i64;
        let slots = ops::Numbers::upload(&self.engine, &(first..first + shape[0]).map(slot).collect::<Vec<_>>())?;
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

    /// The pools, for a run.
    pub(crate) fn kv(&self) -> Result<Kv<'_>, Error> {
        let shape = self.shape();
        Ok(Kv::paged(self.k.tensor(&shape)?, self.v.tensor(&shape)?))
    }

    /// The page table of requests: the pages and the number of keys of each.
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

/// Attention of one token by the definition, in f64: `keys` has, for each KV head, the key and value of every place that is attended to.
pub(crate) fn reference(q: &[f16], keys: impl Fn(usize) -> Vec<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let (dim, group) = (HEADS.head_dim as usize, (HEADS.qo / HEADS.kv) as usize);
    let mut out = Vec::with_capacity(q.len());
    for kv_head in 0..HEADS.kv as usize {
        let keys = keys(kv_head);
        for q in q[kv_head * group * dim..][..group * dim].chunks(dim) {
            let dot = |k: &[f64]| q.iter().zip(k).map(|(q, k)| f64::from(*q) * k).sum::<f64>();
            let logits: Vec<f64> = keys.iter().map(|(k, _)| dot(k) / (dim as f64).sqrt()).collect();
            let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            let value = |d: usize| keys.iter().zip(&weights).map(|((_, v), w)| w * v[d]).sum::<f64>() / total;
            out.extend((0..dim).map(value));
        }
    }
    out
}

/// The part of a token's row that is of a KV head, widened.
pub(crate) fn of_head(row: &[f16], kv_head: usize) -> Vec<f64> {
    let dim = HEADS.head_dim as usize;
    row[kv_head * dim..][..dim].iter().map(|&x| f64::from(x)).collect()
}

/// Distance to the reference, relative to it (Frobenius).
pub(crate) fn error(got: &[f16], want: &[f64]) -> f64 {
    let (off, all) = got
        .iter()
        .zip(want)
        .fold((0.0, 0.0), |(off, all), (&got, &want)| (off + (f64::from(got) - want).powi(2), all + want * want));
    (off / all).sqrt()
}

/// An error that is too large ends an example. NaN is too large.
pub(crate) fn check(what: &str, error: f64) -> Fallible {
    if error < TOLERANCE {
        Ok(())
    } else {
        Err(format!("{what}: the error is {error:.1e}, above {TOLERANCE:.0e}").into())
    }
}
