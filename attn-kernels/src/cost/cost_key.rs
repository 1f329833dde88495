//! What measured costs depend on.

use crate::compile::Arch;

/// The kernels that costs are measured of. Two of them differ in the family (4), in what runs their GEMMs (2), or in
/// the kind of tensor cores (1): the sum of what differs is their distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CostKernel {
    /// Decode on tensor cores.
    Decode = 0,
    /// Decode on CUDA cores.
    DecodeCudaCores = 2,
    /// Sm80 prefill.
    Prefill = 4,
    /// Sm90 prefill.
    PrefillSm90 = 5,
    /// Prefill on CUDA cores.
    PrefillCudaCores = 6,
}

impl CostKernel {
    pub(crate) fn is_decode(self) -> bool {
        matches!(self, CostKernel::Decode | CostKernel::DecodeCudaCores)
    }
}

/// A kernel as costs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CostKey {
    /// The kernel that was measured.
    pub kernel: CostKernel,
    /// The architecture.
    pub arch: Arch,
    /// PackGQA rows of a Q tile.
    pub rows: u32,
    /// Bits of an element of K, as it is multiplied where the producer decodes it.
    pub kv_bits: u32,
    /// Elements of a key, or of a value; the mean where they differ.
    pub head_dim: u32,
    /// Bytes of a key and its value, as they are multiplied where a row is both.
    pub kv_bytes: u32,
    /// Products of both GEMMs for a row and a key.
    pub row_products: u32,
    /// CTAs of an SM.
    pub ctas_per_sm: u32,
}
