//! Options of an attention.

use super::{ComputeType, DecodeBackend, HeadDimVo, KernelKind, KvStored, PrefillBackend};

/// Options of an attention beyond heads and element types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    /// The scale of logits, `q . k`. By default `1 / sqrt(head_dim)`.
    pub sm_scale: Option<f32>,
    /// The kernel. By default each batch runs the kernel with the shortest predicted time. The CPU has one kernel for
    /// all.
    pub kernel: Option<KernelKind>,
    /// The prefill backend, also of the prefill part of a mixed kernel, on a GPU that runs several.
    pub prefill: PrefillBackend,
    /// The decode backend, also of the decode part of a mixed kernel. By default the one with the shortest predicted
    /// time among those that support the problem.
    pub decode: Option<DecodeBackend>,
    /// The element type of the operands of prefill's two GEMMs: Q and K, then P and V.
    pub compute_type: ComputeType,
    /// For a variant with `key_transform` or `value_transform`: whether the cache holds raw or transformed keys and
    /// values. By default they are raw. A cache whose keys were rotated when they were appended is transformed, and no
    /// kernel transforms it again.
    pub stored: KvStored,
    /// The head dim of values and outputs, and the tensor of the values. By default values have a tensor of their own
    /// with the head dim of the keys.
    pub head_dim_vo: HeadDimVo,
    /// Batch invariance: a request gives the same bits alone and in any batch. Its keys are split at multiples of this
    /// many keys (at least 1, rounded up to the kernel's KV tile) and nowhere else. Smaller splits keep a GPU busy with
    /// few requests, but take workspace and time to merge; 1024 to 4096 are a start. By default keys are split so that
    /// the batch is done soonest.
    ///
    /// In prefill kernels, and on the CPU, a query has the same bits whatever queries are beside it, so that a prompt
    /// may be computed in chunks of any sizes. Decode kernels give that for one query a request alone. On CUDA each
    /// request selects its kernel by its own queries. A batch whose requests select different kernels (some with few
    /// queries, some with many) is an error. With `kernel` set to prefill, all run the same, decoding too.
    pub fixed_split_size: Option<u32>,
    /// Skip-softmax (BLASST): how far a KV tile may lie below the keys that a row has seen, in units of logits, before
    /// it is left out. Prefill on WGMMA leaves a tile out, of numerator and denominator, where for each of the 64 rows
    /// of a warpgroup its largest logit is below the row's running maximum by this much or more. By default no tile is
    /// left out.
    ///
    /// It is a permission, with a bound: a row that leaves out `n` keys loses at most a share `n exp(-skip_softmax)` of
    /// its weights ([`skipped_share`](super::skipped_share)). Other kernels and the CPU leave nothing out, which is
    /// within it. Variants with weights of their own, and `fixed_split_size`, are refused beside it.
    pub skip_softmax: Option<f32>,
}
