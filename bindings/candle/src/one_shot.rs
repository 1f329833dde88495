//! Attention of one call: it plans and runs.

use attn::{Batch, Dtypes, Heads, PageTable};
use candle_core::{Result, Tensor};

use crate::{Attention, Engine, IntoVariant, Kv, error::refuse, tensors::dtype};

/// Attention of `q`, (batch, queries, query heads, head dim), over `k` and `v`, (batch, keys, KV heads, head dim),
/// under a variant: `attend(&q, &k, &v, "causal")`. The scale of logits is `1 / sqrt(head_dim)`.
///
/// It binds the variant, and on CUDA loads its kernel, in each call. For more than one call make an [`Attention`], and
/// for layers that share a batch a [`Plan`](crate::Plan).
///
/// # Errors
///
/// The errors of [`Engine::attention`] and [`Attention::dense`].
pub fn attend(q: &Tensor, k: &Tensor, v: &Tensor, variant: impl IntoVariant) -> Result<Tensor> {
    let ((_, _, qo, head_dim), (_, _, kv, _)) = (q.dims4()?, k.dims4()?);
    bind(q, k, v, variant, [qo, kv, head_dim])?.dense(q, k, v)
}

/// [`attend`] for requests of any lengths: `q` of (queries, query heads, head dim), `k` and `v` of (keys, KV heads,
/// head dim) hold them one after the other. `qo_indptr` and `kv_indptr` have where each begins, and their number at the
/// end.
///
/// # Errors
///
/// The errors of [`attend`].
pub fn attend_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    variant: impl IntoVariant,
    qo_indptr: &[i32],
    kv_indptr: &[i32],
) -> Result<Tensor> {
    let ((_, qo, head_dim), (_, kv, _)) = (q.dims3()?, k.dims3()?);
    bind(q, k, v, variant, [qo, kv, head_dim])?.varlen(q, k, v, qo_indptr, kv_indptr)
}

fn bind(q: &Tensor, k: &Tensor, v: &Tensor, variant: impl IntoVariant, heads: [usize; 3]) -> Result<Attention> {
    let [qo, kv, head_dim] = heads.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let dtypes = Dtypes::new(dtype(q.dtype(), "q")?, dtype(k.dtype(), "k")?);
    let value_dim = v.dims().last().copied().unwrap_or(0);
    let head_dim_vo = match u32::try_from(value_dim) {
        Ok(dim) if dim != head_dim => attn::HeadDimVo::Dim(dim),
        _ => attn::HeadDimVo::Same,
    };
    let options = attn::AttentionOptions { head_dim_vo, ..attn::AttentionOptions::default() };
    Engine::new(q.device())?.attention_with(variant, Heads { qo, kv, head_dim }, dtypes, options)
}

impl Attention {
    /// Plans and runs requests of any lengths: `q` of (queries, query heads, head dim), `k` and `v` of (keys, KV heads,
    /// head dim), one request after the other. `qo_indptr` and `kv_indptr` have where each begins, and their number at
    /// the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::plan`] and [`Plan::run`](crate::Plan::run).
    pub fn varlen(&self, q: &Tensor, k: &Tensor, v: &Tensor, qo_indptr: &[i32], kv_indptr: &[i32]) -> Result<Tensor> {
        self.plan(&Batch::ragged(qo_indptr, kv_indptr))?.run(q, &Kv::ragged(k, v))
    }

    /// Plans and runs requests of one length: `q` of (batch, queries, query heads, head dim), `k` and `v` of (batch,
    /// keys, KV heads, head dim), and an output like `q`. With `causal` the last query sees all keys.
    ///
    /// Keys and values may have any strides, as transposed caches do. Queries of one request follow those of the one
    /// before.
    ///
    /// # Errors
    ///
    /// Queries that lie otherwise; the errors of [`Attention::varlen`].
    pub fn dense(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let (batch, queries, qo_heads, _) = q.dims4()?;
        let (of_k, keys, _, _) = k.dims4()?;
        v.dims4()?;
        if of_k != batch || v.dims()[..2] != k.dims()[..2] {
            return refuse(format!(
                "k of shape {:?} and v of shape {:?} are not of the batch of q, {batch}; they are (batch, keys, KV \
                 heads, head dim)",
                k.dims(),
                v.dims()
            ));
        }
        let ends = |of_each: usize| -> Result<Vec<i32>> {
            let end = |request: usize| i32::try_from(request * of_each).map_err(candle_core::Error::wrap);
            (0..=batch).map(end).collect()
        };
        let Some(queries_of_all) = rows(q)? else {
            return refuse(format!(
                "`q` of shape {:?} has strides {:?}: queries of one request must follow those of the one before; pass \
                 `q.contiguous()`",
                q.dims(),
                q.stride()
            ));
        };
        let qo_indptr = ends(queries)?;
        let o = match (rows(k)?, rows(v)?) {
            (Some(k), Some(v)) => self.varlen(&queries_of_all, &k, &v, &qo_indptr, &ends(keys)?)?,
            // each request has a page of its own, in any strides
            _ => {
                let (page_size, num_pages) = (u32::try_from(keys).unwrap_or(0), u32::try_from(batch).unwrap_or(0));
                let (indptr, last_page_len) = (ends(1)?, vec![page_size.cast_signed(); batch]);
                let indices = &indptr[..batch];
                let table = PageTable { indptr: &indptr, indices, last_page_len: &last_page_len, page_size, num_pages };
                self.plan(&Batch::paged(&qo_indptr, &table))?.run(&queries_of_all, &Kv::paged(k, v))?
            }
        };
        o.reshape((batch, queries, qo_heads, self.value_dim))
    }
}

/// The rows of all requests, one request after the other, if they lie so.
fn rows(of: &Tensor) -> Result<Option<Tensor>> {
    let (batch, tokens, heads, dim) = of.dims4()?;
    match batch {
        _ if of.is_contiguous() => of.reshape((batch * tokens, heads, dim)).map(Some),
        // nothing is copied of requests without tokens, which no page holds
        _ if tokens == 0 => of.contiguous()?.reshape((0, heads, dim)).map(Some),
        1 => of.squeeze(0).map(Some),
        _ => Ok(None),
    }
}
