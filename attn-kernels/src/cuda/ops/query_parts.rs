//! The queries that an append transforms beside keys and values.

use attn_core::dtype::Dtype;
use attn_core::ops::append::QUERIES;
use attn_core::ops::{KvRef, OpError};
use attn_core::tensor::Scale;

use super::launch::OpLaunch;
use super::merge::share;
use super::{TRANSFORM_ROWS, ctas, in_sixteens};
use crate::cuda::CudaError;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::launch::{OP_THREADS, RowsPart};

/// The rows of queries, and how they are moved.
pub(super) struct QueryParts {
    parts: Vec<RowsPart>,
    heads: usize,
    /// Elements of a chunk, if rows are moved in 16 bytes.
    chunk: usize,
    pub(super) to: Dtype,
    /// Whether they can be.
    pub(super) wide: bool,
}

impl QueryParts {
    /// The tensors have been checked. `from` and `out` may be the same memory.
    pub(super) fn new<'a>(
        launch: &mut OpLaunch<'a>,
        from: &KvRef<'a>,
        out: &KvRef<'a>,
        scale: &Scale<'a>,
    ) -> Result<Self, CudaError> {
        let missing = OpError::Values { there: "the output", missing: "the queries" };
        let (first, to) = from.parts().zip(out.parts()).next().ok_or(missing)?;
        let (heads, to) = (first.shape()[1], to.dtype());
        let chunk = 16 / first.dtype().size().min(to.size());
        let (mut parts, mut wide) = (Vec::new(), true);
        for (name, (rows, out)) in QUERIES.into_iter().zip(from.parts().zip(out.parts())) {
            let dim = if heads == 0 { 0 } else { rows.shape()[2] };
            let (packed, pool) = (launch.strided(Read, "q", &rows)?, launch.strided(Write, name, &out)?);
            for (strided, dtype) in [(&packed, rows.dtype()), (&pool, to)] {
                let aligned = in_sixteens(strided.data, dtype.size(), &[strided.token, strided.head]);
                wide &= dim == 0 || (aligned && dim.is_multiple_of(chunk));
            }
            let scales = launch.read_scales("q_scales", scale)?;
            parts.push(RowsPart { packed, pool, scales, dim: dim as i32, scale: scale.all, ..RowsPart::default() });
        }
        Ok(QueryParts { parts, heads, chunk, to, wide })
    }

    /// The parameters: one part, or two.
    pub(super) fn parts(&self, wide: bool) -> (u32, [RowsPart; 2]) {
        let mut params = [RowsPart::default(); 2];
        for (to, part) in params.iter_mut().zip(&self.parts) {
            let dim = part.dim as usize;
            *to = RowsPart { share: share(self.heads, if wide { dim / self.chunk } else { dim }), ..*part };
        }
        (self.parts.len() as u32, params)
    }

    /// CTAs per tensor, and bytes of shared memory.
    pub(super) fn size(&self, tokens: u64) -> Result<(u32, u32), CudaError> {
        let dim = self.parts.iter().map(|part| part.dim as u32).max().unwrap_or(0);
        let rows = if dim == 0 { 0 } else { tokens * self.heads as u64 };
        Ok((ctas("rows", rows, TRANSFORM_ROWS)?, OP_THREADS / 32 * dim * 4))
    }
}
