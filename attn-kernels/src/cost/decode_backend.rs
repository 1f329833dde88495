//! The choice of a decode backend by measured costs.

use attn_core::spec::{DecodeBackend, KernelKind};

use super::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};

/// CUDA cores are chosen if they take less time than tensor cores by more than one part in `MARGIN`. Closer times are
/// within the spread of the measurement.
const MARGIN: u64 = 16;

impl KernelTraitsRequest {
    /// The request with a decode backend: the one that it names, else the one with less measured time for the keys of a
    /// full device, among those that support the problem.
    #[must_use]
    pub fn with_decode_backend(self, hooks: HookClass, costs: &CostTable) -> Self {
        let time = |backend| {
            let decode = KernelTraitsRequest { kind: KernelKind::Decode, decode: Some(backend), ..self };
            let costs = costs.of(&KernelTraits::choose(&decode).ok()?, hooks);
            // picoseconds of an SM for a block of keys
            Some(1000 * (u64::from(costs.block) + u64::from(costs.first)) / u64::from(costs.ctas_per_sm.max(1)))
        };
        let fastest = || match [DecodeBackend::TensorCores, DecodeBackend::CudaCores].map(time) {
            [Some(tensor_cores), Some(cuda_cores)] if cuda_cores * MARGIN < tensor_cores * (MARGIN - 1) => {
                DecodeBackend::CudaCores
            }
            _ => self.decode_backend(),
        };
        KernelTraitsRequest { decode: Some(self.decode.unwrap_or_else(fastest)), ..self }
    }
}
