//! Mixed: decode of some requests and prefill of the others in one launch.

use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, MixedRule, PlanRule, Schedule};
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::common::CommonTraits;
use super::kernel::{Facts, Kernel};
use super::kernels::Single;
use super::kernels::decode_cuda_cores::DecodeCudaCores;
use super::kernels::decode_mma::DecodeMma;
use super::kernels::prefill_cuda_cores::PrefillCudaCores;
use super::kernels::prefill_sm80::PrefillSm80;
use super::kernels::prefill_sm90::{PIPELINE_STATE_BYTES, PrefillSm90};
use super::request::KernelTraitsRequest;
use super::worker_tiles::WorkerTiles;

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

/// Decode and prefill in one launch. With sm90 prefill the CTAs of the decode part decode with all warps, producers
/// included, and prefill then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mixed {
    pub(super) prefill: Single,
    /// With one CTA per SM.
    pub(super) decode: Single,
    /// Whether a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub(super) shared_rows: bool,
}

impl Mixed {
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
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
        let prefill = supported.then(|| PrefillSm90::of(request, common)).flatten().map(Single::PrefillSm90)?;
        let wide = DecodeMma::wide_keys(common);
        let tries = [(wide, 3), (wide, 2), (16, 3), (16, 2)];
        let mut tries = tries.iter().filter_map(|&step| Self::of(request, common, prefill, step, [false; 2]));
        tries.find(|of| of.smem_bytes(common) + PIPELINE_STATE_BYTES <= common.arch.min_smem())
    }

    /// Sm80 prefill with four warps, or prefill on CUDA cores, and a decode part with as many warps, whose pipeline is
    /// as deep as two CTAs per SM allow.
    fn with_equal_warps(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let on_cuda_cores = |warps| PrefillCudaCores::with_warps(request, common, warps).map(Single::PrefillCudaCores);
        let parts: Vec<_> = match request.runs_on_cuda_cores() {
            true => [4, 2, 1].into_iter().filter_map(on_cuda_cores).collect(),
            false => PrefillSm80::part(request, common).map(Single::PrefillSm80).into_iter().collect(),
        };
        let wide = DecodeMma::wide_keys(common);
        let steps: &[_] = match request.decode_backend() {
            DecodeBackend::TensorCores => &[(wide, 3), (wide, 2), (16, 3), (16, 2)],
            DecodeBackend::CudaCores => &[(wide, 3), (wide, 2), (8, 3), (8, 2), (32, 2), (4, 2)],
        };
        let tries = |decoded| {
            let of = move |&part| steps.iter().filter_map(move |&step| Self::of(request, common, part, step, decoded));
            parts.iter().flat_map(of)
        };
        // as in decode, decoded rows hold partial states that stages do not
        let decoded = common.packed.map(|_| tries([true, !common.values_share_keys]));
        let tries: Vec<_> = tries([false; 2]).chain(decoded.into_iter().flatten()).collect();
        let first_that_fits = |ctas: u32| {
            let of = tries.iter().find(|of| common.holds(ctas, of.smem_bytes(common)))?;
            let prefill = match of.prefill {
                Single::PrefillSm80(prefill) => Single::PrefillSm80(prefill.with_ctas(ctas)),
                Single::PrefillCudaCores(PrefillCudaCores(tiles)) => {
                    Single::PrefillCudaCores(PrefillCudaCores(WorkerTiles { ctas_per_sm: ctas, ..tiles }))
                }
                other => other,
            };
            Some(Mixed { prefill, ..*of })
        };
        first_that_fits(2).or_else(|| first_that_fits(1))
    }

    /// With these keys of a warp and stages of the decode part, which widens `decoded` rows too; if its partial states
    /// fit.
    fn of(
        request: &KernelTraitsRequest,
        common: &CommonTraits,
        prefill: Single,
        (warp_keys, stages): (u32, u32),
        decoded: [bool; 2],
    ) -> Option<Self> {
        let on_cuda_cores = request.decode_backend() == DecodeBackend::CudaCores;
        let [keys, values] = request.widened(on_cuda_cores);
        let tiles = WorkerTiles::new(request.decode_rows(), [keys || decoded[0], values || decoded[1]]);
        let Facts { warps, producer_warps, .. } = prefill.kernel().facts();
        let tiles = WorkerTiles { warps: warps + producer_warps, warp_keys, stages, ctas_per_sm: 1, ..tiles };
        let decode = match on_cuda_cores {
            true => Single::DecodeCudaCores(DecodeCudaCores(tiles)),
            false => Single::DecodeMma(DecodeMma(tiles)),
        };
        tiles.holds_partials(common).then_some(Mixed { prefill, decode, shared_rows: request.shared_rows })
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
        let (cost, ctas_per_sm) = (decode.cost, self.facts().ctas_per_sm);
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
    fn has_own_sms(&self) -> bool {
        self.prefill.kernel().facts().wgmma.is_some()
    }
}

impl Kernel for Mixed {
    /// Its sizes are those of the prefill part. Its headers come behind the namespaces of both.
    fn facts(&self) -> Facts {
        let headers = if self.has_own_sms() { &["mixed/sm90_kernel.cuh"] } else { &["mixed/kernel.cuh"] };
        let (kind, prefill) = (KernelKind::Mixed, self.prefill.kernel().facts());
        Facts { kind, headers, part_headers: &[], has_workers: false, ..prefill }
    }
    fn name(&self) -> String {
        let [prefill, decode] = [self.prefill, self.decode].map(|part| part.kernel().facts());
        let shared = if self.shared_rows { " shared" } else { "" };
        let cuda_cores = match (prefill.on_cuda_cores, decode.on_cuda_cores) {
            (false, false) => "",
            (false, true) => " cuda-cores decode",
            (true, false) => " cuda-cores prefill",
            (true, true) => " cuda-cores",
        };
        let wgmma = if self.has_own_sms() { " wgmma" } else { "" };
        format!(" rows {}{shared}{cuda_cores}{wgmma}", decode.tile_rows)
    }
    fn smem_bytes(&self, common: &CommonTraits) -> u32 {
        self.decode.kernel().smem_bytes(common).max(self.prefill.kernel().smem_bytes(common))
    }
    fn query_rows(&self, group: u32) -> [u32; 2] {
        self.prefill.kernel().query_rows(group)
    }
}
