//! The choice of a decode backend by measured costs.

use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::predict::MARGIN;
use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};

impl KernelTraitsRequest {
    /// The request with a decode backend: the one that it names, else the one with less measured time for the keys of a
    /// full device, among those that support the problem. Costs of a user do not decide what batches run at all. So the
    /// backend of the built-in costs stays where it has a mixed kernel and theirs has none, and under batch invariance,
    /// where tile sizes decide which batches one kernel runs.
    #[must_use]
    pub fn with_decode_backend(self, hooks: HookClass, costs: &CostTable) -> Self {
        let decode = self.decode.unwrap_or_else(|| {
            let fastest = |costs| self.fastest_decode_backend(hooks, costs);
            let (fastest, built_in) = (fastest(costs), fastest(&CostTable::default()));
            if self.row_invariant || self.has_mixed_without(built_in, fastest) { built_in } else { fastest }
        });
        KernelTraitsRequest { decode: Some(decode), ..self }
    }

    fn fastest_decode_backend(&self, hooks: HookClass, costs: &CostTable) -> DecodeBackend {
        let time = |backend| {
            let decode = KernelTraitsRequest { kind: KernelKind::Decode, decode: Some(backend), ..*self };
            let costs = costs.of(&KernelTraits::choose(&decode).ok()?.cost_key(), hooks);
            // picoseconds of an SM for a block of keys
            Some(1000 * (u64::from(costs.block) + u64::from(costs.first)) / u64::from(costs.ctas_per_sm.max(1)))
        };
        match [DecodeBackend::TensorCores, DecodeBackend::CudaCores].map(time) {
            // closer times are within the spread of the measurement
            [Some(tensor), Some(cuda)] if cuda * MARGIN < tensor * (MARGIN - 1) => DecodeBackend::CudaCores,
            _ => self.decode_backend(),
        }
    }

    /// Whether some mixed kernel exists with one decode backend and not with another.
    fn has_mixed_without(&self, with: DecodeBackend, without: DecodeBackend) -> bool {
        let exists = |decode, (prefill, shared_rows)| {
            let mixed = KernelTraitsRequest { kind: KernelKind::Mixed, decode, prefill, shared_rows, ..*self };
            KernelTraits::choose(&mixed).is_ok()
        };
        let all = [self.prefill, PrefillBackend::Sm80].map(|prefill| [false, true].map(|shared| (prefill, shared)));
        with != without && all.iter().flatten().any(|&of| exists(Some(with), of) && !exists(Some(without), of))
    }
}
