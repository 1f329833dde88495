//! Options of an attention on a CUDA device.

use attn_core::spec::{HeadDimVo, KernelKind, KvStored, PrefillBackend};

/// Options of an attention beside heads and element types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// The factor of `q . k`; `1 / sqrt(head_dim)` by default.
    pub sm_scale: Option<f32>,
    /// The kernel family for all batches; the longest request of a batch then decides on the decode tile. By default
    /// each batch runs the kernel that is predicted to finish first.
    pub kernel: Option<KernelKind>,
    /// The prefill backend.
    pub prefill: PrefillBackend,
    /// For a variant with `key_transform` or `value_transform`: whether the cache holds raw or transformed keys and
    /// values.
    pub stored: KvStored,
    /// Elements of a value, and whether values are stored in the keys.
    pub head_dim_vo: HeadDimVo,
    /// Batch invariance: a request gives the same bits alone and in any batch. Its keys are split at multiples of this
    /// number and nowhere else (rounded up to the keys of a mainloop step; at least 1). Its kernel family depends on
    /// its own queries alone, unless `kernel` names one; a batch whose requests need both families is an error.
    pub fixed_split_size: Option<u32>,
}
