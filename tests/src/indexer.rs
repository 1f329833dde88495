//! Batches of index queries and keys, for tests of indexers.

mod run;

pub use run::{Indexed, attend_to_chosen};

use attn_core::dtype::Dtype;
use attn_core::indexer::{IndexKeys, IndexQueries, ScoresMut, Visible, block_scores, index_scores};
use attn_core::ops::{Array, OpError, PageTableRows};
use attn_core::tensor::TensorRef;
use half::{bf16, f16};

use crate::synthetic::values;

/// A batch: requests of odd lengths, one without queries, one of more queries than keys.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct IndexCase {
    pub of: Dtype,
    pub heads: usize,
    pub dim: usize,
    /// 0: keys have scores.
    pub block_size: usize,
    /// 0: keys are packed.
    pub page_size: usize,
    /// Queries and keys of each request.
    pub lens: Vec<(usize, usize)>,
    /// Bits of (tokens, heads, dim).
    pub q: Vec<u16>,
    /// Bits of packed keys, or of a pool, NaN where no key is.
    pub keys: Vec<u16>,
    pub weights: Vec<f32>,
    pub qo_indptr: Vec<i32>,
    pub kv_indptr: Vec<i32>,
    pub kv_lens: Vec<i32>,
    pub page_indptr: Vec<i32>,
    pub pages: Vec<i32>,
    /// Keys that each query sees, in place of causality.
    pub given: Option<Vec<i32>>,
}

fn sums(of: impl Iterator<Item = usize>) -> Vec<i32> {
    let sum = |sum: &mut i32, len: usize| {
        *sum += len as i32;
        Some(*sum)
    };
    std::iter::once(0).chain(of.scan(0, sum)).collect()
}

fn bits(of: Dtype, values: &[f32]) -> Vec<u16> {
    let bits = |x: &f32| if of == Dtype::F16 { f16::from_f32(*x).to_bits() } else { bf16::from_f32(*x).to_bits() };
    values.iter().map(bits).collect()
}

impl IndexCase {
    /// A batch of the usual requests.
    pub fn new(of: Dtype, heads: usize, dim: usize, block_size: usize, page_size: usize, given: bool) -> Self {
        let lens = vec![(1, 1), (3, 130), (0, 20), (5, 2), (1, 999)];
        IndexCase::of(lens, of, heads, dim, block_size, page_size).seeing(given)
    }

    /// A batch of these numbers of queries and keys, under causality.
    pub fn of(
        lens: Vec<(usize, usize)>,
        of: Dtype,
        heads: usize,
        dim: usize,
        block_size: usize,
        page_size: usize,
    ) -> Self {
        let (qo_indptr, kv_indptr) = (sums(lens.iter().map(|len| len.0)), sums(lens.iter().map(|len| len.1)));
        // a row of padding
        let (tokens, keys) = (qo_indptr[lens.len()] as usize + 1, kv_indptr[lens.len()] as usize);
        let packed = bits(of, &values(keys * dim, 2));
        let page_indptr = sums(lens.iter().map(|len| len.1.div_ceil(page_size.max(1))));
        let num_pages = page_indptr[lens.len()];
        // every page once, in another order than that of keys, and one page that no request has
        let pages: Vec<i32> = (0..num_pages).map(|page| num_pages - page).collect();
        let keys = if page_size == 0 {
            packed
        } else {
            let mut pool = vec![0xffff; (num_pages as usize + 1) * page_size * dim];
            for (request, (_, len)) in lens.iter().enumerate() {
                for key in 0..*len {
                    let page = pages[page_indptr[request] as usize + key / page_size] as usize;
                    let from = (kv_indptr[request] as usize + key) * dim;
                    pool[(page * page_size + key % page_size) * dim..][..dim]
                        .copy_from_slice(&packed[from..from + dim]);
                }
            }
            pool
        };
        IndexCase {
            of,
            heads,
            dim,
            block_size,
            page_size,
            q: bits(of, &values(tokens * heads * dim, 1)),
            keys,
            weights: values(tokens * heads, 3),
            qo_indptr,
            kv_indptr,
            kv_lens: lens.iter().map(|len| len.1 as i32).collect(),
            page_indptr,
            pages,
            given: None,
            lens,
        }
    }

    /// The same; if `given`, queries see numbers of keys of their own, some more than there are.
    pub fn seeing(mut self, given: bool) -> Self {
        let counts = (0..self.tokens()).map(|token| (token as i32 * 397) % 1100 - 3).collect();
        self.given = given.then_some(counts);
        self
    }

    /// Rows of queries, that of padding included.
    pub fn tokens(&self) -> usize {
        self.q.len() / (self.heads * self.dim)
    }

    /// Pages of the pool.
    pub fn num_pages(&self) -> usize {
        self.keys.len() / (self.dim * self.page_size.max(1))
    }

    /// The number of keys that each query sees, that of padding included.
    pub fn visible(&self) -> Vec<usize> {
        let mut visible = vec![0; self.tokens()];
        for (request, &(queries, keys)) in self.lens.iter().enumerate() {
            for row in 0..queries {
                let token = self.qo_indptr[request] as usize + row;
                visible[token] = match &self.given {
                    Some(given) => (given[token].max(0) as usize).min(keys),
                    None => (keys + row + 1).saturating_sub(queries),
                };
            }
        }
        visible
    }

    fn tensor<'a>(&self, bits: &'a [u16], shape: &[usize]) -> TensorRef<'a> {
        let tensor = match self.of {
            Dtype::F16 => TensorRef::host::<f16>(bytemuck::cast_slice(bits), shape),
            _ => TensorRef::host::<bf16>(bytemuck::cast_slice(bits), shape),
        };
        tensor.expect("as many")
    }

    /// The queries in host memory.
    pub fn queries(&self) -> IndexQueries<'_> {
        IndexQueries {
            q: self.tensor(&self.q, &[self.tokens(), self.heads, self.dim]),
            qo_indptr: Array::host(&self.qo_indptr),
            visible: self.given.as_ref().map_or(Visible::Causal, |given| Visible::Counts(Array::host(given))),
        }
    }

    /// The keys in host memory.
    pub fn index_keys(&self) -> IndexKeys<'_> {
        if self.page_size == 0 {
            let keys = self.tensor(&self.keys, &[self.keys.len() / self.dim, self.dim]);
            return IndexKeys::Ragged { keys, kv_indptr: Array::host(&self.kv_indptr) };
        }
        IndexKeys::Paged {
            keys: self.tensor(&self.keys, &[self.num_pages(), self.page_size, self.dim]),
            rows: PageTableRows::Csr { indptr: Array::host(&self.page_indptr), pages: Array::host(&self.pages) },
            kv_lens: Array::host(&self.kv_lens),
        }
    }

    /// The weights in host memory.
    pub fn weight_tensor(&self) -> TensorRef<'_> {
        TensorRef::host(&self.weights, &[self.tokens(), self.heads]).expect("as many")
    }
}

/// Scores of keys or of blocks on the CPU.
///
/// # Errors
/// Those of the op.
pub fn scores_of(case: &IndexCase, out: &mut ScoresMut<'_>) -> Result<(), OpError> {
    match case.block_size {
        0 => index_scores(&case.queries(), &case.weight_tensor(), &case.index_keys(), out),
        size => block_scores(&case.queries(), &case.index_keys(), size, out),
    }
}
