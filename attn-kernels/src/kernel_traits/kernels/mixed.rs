//! Mixed: decode of some requests and prefill of the others in one launch.

use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, MixedRule, PlanRule, Schedule};
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::decode_cuda_cores::DecodeCudaCores;
use super::decode_mma::DecodeMma;
use super::prefill_cuda_cores::PrefillCudaCores;
use super::prefill_sm80::PrefillSm80;
use super::prefill_sm90::{PIPELINE_STATE_BYTES, PrefillSm90};
use crate::kernel_traits::common::CommonTraits;
use crate::kernel_traits::kernel::{Facts, Kernel, Tiles};
use crate::kernel_traits::request::KernelTraitsRequest;
use crate::kernel_traits::worker_tiles::WorkerTiles;

/// The least keys of a KV split of a prefill tile. A mixed launch always includes the merge kernel, and each CTA of the
/// merge has few rows, so short splits are cheap to merge.
const MIN_SPAN: u32 = 256;
/// Nanoseconds that a merge of a few states adds to a launch on an H200. The merge takes 5.7 to 6.5 us, partly
/// overlapped with the launch before it.
const MERGE_LAUNCH_NS: u32 = 4500;
/// How much more decode keys cost in a mixed launch, in units of 1/1024: it has fewer CTAs per SM
/// (`book/src/performance/notes/mixed.md`).
const DECODE_PENALTY: u32 = 128;
/// The time that an SM takes for decode keys while the others compute prefill, relative to its time while all SMs
/// decode. With all 132 SMs of an H200 each reads 33 GB/s, since the memory is saturated; with fewer 48 are expected
/// (`book/src/performance/notes/mixed.md`).
pub(crate) const OWN_SM_TIME: [u32; 2] = [2, 3];

/// The prefill part of a mixed kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PrefillPart {
    Sm80(PrefillSm80),
    Sm90(PrefillSm90),
    CudaCores(PrefillCudaCores),
}

/// The decode part of a mixed kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DecodePart {
    Mma(DecodeMma),
    CudaCores(DecodeCudaCores),
}

/// Decode and prefill in one launch. With sm90 prefill the CTAs of the decode part decode with all warps, producers
/// included, and prefill then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mixed {
    pub(in crate::kernel_traits) prefill: PrefillPart,
    pub(in crate::kernel_traits) decode: DecodePart,
    /// Whether a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub(in crate::kernel_traits) shared_rows: bool,
}

impl Mixed {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        if request.kind != KernelKind::Mixed {
            return None;
        }
        Self::with_sm90_prefill(request, common).or_else(|| Self::with_equal_warps(request, common))
    }

    /// With sm90 prefill, if it supports the problem: one CTA an SM, and a decode part of all its warps, whose pipeline
    /// is as deep as their stages fit shared memory. Stages of rows longer than 128 elements do not fit it, and prefill
    /// has no rows of several requests.
    fn with_sm90_prefill(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let supported = request.prefill == PrefillBackend::Sm90
            && !request.runs_on_cuda_cores()
            && request.decode_backend() == DecodeBackend::TensorCores
            && common.packed.is_none()
            && !(request.key_lists || request.shared_rows)
            && common.head_dim.max(common.value_dim) <= 128;
        let prefill = supported.then(|| PrefillSm90::of(request, common)).flatten().map(PrefillPart::Sm90)?;
        let wide = DecodeMma::wide_keys(common);
        let mut tries = [(wide, 3), (wide, 2), (16, 3), (16, 2)]
            .map(|step| Self::of(request, prefill, step, [false; 2]))
            .into_iter();
        tries.find(|of| {
            let bytes = of.smem_bytes(common) + PIPELINE_STATE_BYTES;
            of.decode.tiles().holds_partials(common) && bytes <= common.arch.min_smem()
        })
    }

    /// Sm80 prefill with four warps, or prefill on CUDA cores, and a decode part with as many warps, whose pipeline is
    /// as deep as two CTAs per SM allow.
    fn with_equal_warps(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let parts: Vec<_> = match request.runs_on_cuda_cores() {
            true => {
                let of = |warps| PrefillCudaCores::with_warps(request, common, warps).map(PrefillPart::CudaCores);
                [4, 2, 1].into_iter().filter_map(of).collect()
            }
            false => PrefillSm80::part(request, common).map(PrefillPart::Sm80).into_iter().collect(),
        };
        let wide = DecodeMma::wide_keys(common);
        let steps: &[_] = match request.decode_backend() {
            DecodeBackend::TensorCores => &[(wide, 3), (wide, 2), (16, 3), (16, 2)],
            DecodeBackend::CudaCores => &[(wide, 3), (wide, 2), (8, 3), (8, 2), (32, 2), (4, 2)],
        };
        let tries = |decoded| {
            let of = move |&part| steps.iter().map(move |&step| Self::of(request, part, step, decoded));
            parts.iter().flat_map(of)
        };
        // as in decode, decoded rows hold partial states that stages do not
        let decoded = common.packed.map(|_| tries([true, !common.values_share_keys]));
        let tries: Vec<_> = tries([false; 2]).chain(decoded.into_iter().flatten()).collect();
        let first_that_fits = |ctas: u32| {
            let fits =
                |of: &&Self| of.decode.tiles().holds_partials(common) && common.holds(ctas, of.smem_bytes(common));
            tries.iter().find(fits).map(|of| of.with_ctas(ctas))
        };
        first_that_fits(2).or_else(|| first_that_fits(1))
    }

    /// With these keys of a warp and stages of the decode part, which widens `decoded` rows too.
    fn of(request: &KernelTraitsRequest, prefill: PrefillPart, step: (u32, u32), decoded: [bool; 2]) -> Self {
        let on_cuda_cores = request.decode_backend() == DecodeBackend::CudaCores;
        let [keys, values] = request.widened(on_cuda_cores);
        let Tiles { warps, producer_warps, .. } = prefill.kernel().facts().tiles;
        let tiles = WorkerTiles {
            warps: warps + producer_warps,
            warp_keys: step.0,
            stages: step.1,
            ctas_per_sm: 1,
            ..WorkerTiles::new(request.decode_rows(), [keys || decoded[0], values || decoded[1]])
        };
        let decode = match on_cuda_cores {
            true => DecodePart::CudaCores(DecodeCudaCores(tiles)),
            false => DecodePart::Mma(DecodeMma(tiles)),
        };
        Mixed { prefill, decode, shared_rows: request.shared_rows }
    }

    fn with_ctas(self, ctas_per_sm: u32) -> Self {
        let prefill = match self.prefill {
            PrefillPart::Sm80(of) => PrefillPart::Sm80(of.with_ctas(ctas_per_sm)),
            PrefillPart::CudaCores(PrefillCudaCores(of)) => {
                PrefillPart::CudaCores(PrefillCudaCores(WorkerTiles { ctas_per_sm, ..of }))
            }
            of @ PrefillPart::Sm90(_) => of,
        };
        Mixed { prefill, ..self }
    }

    /// The rule of a mixed launch, of those of its parts alone. The device holds as many CTAs as the parts' rules say,
    /// which share them in proportion to their predicted costs. Decode was measured with `measured_ctas` an SM.
    ///
    /// A decode worker that runs beside a prefill tile does not share the memory bandwidth of its SM. It reads as fast
    /// as all decode CTAs of an SM do together, so its keys cost the measured time divided by the CTAs per SM. With
    /// sm90 prefill it has the SM for itself, and costs less still (`OWN_SM_TIME`).
    pub(crate) fn rule(
        &self,
        decode: PlanRule,
        prefill: PlanRule,
        measured_ctas: u32,
        co_run_workers: u32,
    ) -> MixedRule {
        let (cost, ctas_per_sm) = (decode.cost, self.facts().tiles.ctas_per_sm);
        let own_sms = self.has_own_sms();
        let [time, of_all] = if own_sms { OWN_SM_TIME } else { [1, 1] };
        let block = (cost.block.saturating_mul(time) / (measured_ctas * of_all)).max(1);
        // keys of a shared prefix are re-read from L2, at half the cost; the decode launch that reads them fills the
        // device
        let cached_block = (cost.block.saturating_mul(ctas_per_sm) / measured_ctas).div_ceil(2).min(block);
        MixedRule {
            decode: PlanRule { cost: Cost { block, ..cost }, ..decode },
            // each CTA runs one item
            prefill: PlanRule { min_span: MIN_SPAN, schedule: Schedule::LongestFirst, ..prefill },
            co_run_workers,
            own_sms,
            // one CTA writes the partial state, and another reads it
            cascade: CascadeCosts {
                policy: CascadePolicy::Auto,
                state: 2 * cost.merge.max(1),
                cached_block,
                merge_launch: MERGE_LAUNCH_NS,
                decode_penalty: DECODE_PENALTY,
            },
        }
    }

    /// Whether each decode CTA has an SM for itself.
    pub(in crate::kernel_traits) fn has_own_sms(&self) -> bool {
        matches!(self.prefill, PrefillPart::Sm90(_))
    }
}

impl PrefillPart {
    fn kernel(&self) -> &dyn Kernel {
        match self {
            PrefillPart::Sm80(kernel) => kernel,
            PrefillPart::Sm90(kernel) => kernel,
            PrefillPart::CudaCores(kernel) => kernel,
        }
    }
}

impl DecodePart {
    fn kernel(&self) -> &dyn Kernel {
        match self {
            DecodePart::Mma(kernel) => kernel,
            DecodePart::CudaCores(kernel) => kernel,
        }
    }

    fn tiles(&self) -> &WorkerTiles {
        match self {
            DecodePart::Mma(DecodeMma(tiles)) | DecodePart::CudaCores(DecodeCudaCores(tiles)) => tiles,
        }
    }
}

impl Kernel for Mixed {
    fn facts(&self) -> Facts {
        let headers = if self.has_own_sms() { &["mixed/sm90_kernel.cuh"] } else { &["mixed/kernel.cuh"] };
        let (step_keys, prefill) = (self.decode.tiles().step_keys(), self.prefill.kernel().facts());
        Facts { kind: KernelKind::Mixed, headers, cost: prefill.cost, step_keys, ..Facts::prefill(prefill.tiles) }
    }
    fn name(&self) -> String {
        let shared = if self.shared_rows { " shared" } else { "" };
        let cuda_cores = match (self.prefill, self.decode) {
            (PrefillPart::CudaCores(_), DecodePart::CudaCores(_)) => " cuda-cores",
            (PrefillPart::CudaCores(_), _) => " cuda-cores prefill",
            (_, DecodePart::CudaCores(_)) => " cuda-cores decode",
            _ => "",
        };
        let wgmma = if self.has_own_sms() { " wgmma" } else { "" };
        format!(" rows {}{shared}{cuda_cores}{wgmma}", self.decode.tiles().rows)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        self.decode.kernel().smem_bytes(common).max(self.prefill.kernel().smem_bytes(common))
    }
}
