//! Mixed: decode of some requests and prefill of the others in one launch.

use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::common::CommonTraits;
use super::facts::Facts;
use super::kernels::decode_cuda_cores::DECODE_CUDA_CORES;
use super::kernels::decode_mma::{DECODE_MMA, wide_keys};
use super::kernels::prefill_sm90::{self, PIPELINE_STATE_BYTES};
use super::kernels::{prefill_cuda_cores, prefill_sm80};
use super::request::KernelTraitsRequest;

/// The parts of a mixed kernel: decode and prefill in one launch. With sm90 prefill the CTAs of the decode part decode
/// with all warps, producers included, and prefill then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) prefill: Facts,
    /// With one CTA per SM.
    pub(super) decode: Facts,
    /// Whether a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub(super) shared_rows: bool,
}

impl Parts {
    /// Of the first parts that fit. With sm90 prefill, if it supports the problem: one CTA an SM, and a decode part of
    /// all its warps, whose pipeline is as deep as their stages fit shared memory. Keys and values of 16 bits and more
    /// than 256 elements together do not, and prefill has no rows of several requests. Otherwise sm80 prefill with four
    /// warps, or prefill on CUDA cores, and a decode part with as many warps, whose pipeline is as deep as two CTAs per
    /// SM allow.
    pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
        let on_cuda_cores = request.runs_on_cuda_cores();
        let has_sm90 = request.prefill == PrefillBackend::Sm90
            && !on_cuda_cores
            && request.decode_backend() == DecodeBackend::TensorCores
            && common.arch.has_wgmma()
            && !(request.key_lists || request.shared_rows);
        let sm90 = if has_sm90 { prefill_sm90::tiles(request, common) } else { None };
        let mut of_sm90 = Self::all(request, common, sm90.as_slice()).into_iter();
        let fits = |of: &Self| of.smem_bytes() + PIPELINE_STATE_BYTES <= common.arch.min_smem();
        let equal_warps = || {
            let parts: Vec<_> = match on_cuda_cores {
                true => [4, 2, 1].iter().filter_map(|&n| prefill_cuda_cores::with_warps(request, common, n)).collect(),
                false => prefill_sm80::part(request, common).into_iter().collect(),
            };
            let all = Self::all(request, common, &parts);
            [2, 1].into_iter().find_map(|ctas_per_sm| {
                let of = all.iter().find(|of| common.holds(ctas_per_sm, of.smem_bytes()))?;
                Some(Parts { prefill: Facts { ctas_per_sm, ..of.prefill }, ..*of })
            })
        };
        of_sm90.find(fits).or_else(equal_warps)
    }

    /// All kernels with one of these prefill parts whose partial states fit, by the keys and stages of a decode warp.
    fn all(request: &KernelTraitsRequest, common: &CommonTraits, parts: &[Facts]) -> Vec<Self> {
        let on_cuda_cores = request.decode_backend() == DecodeBackend::CudaCores;
        let wide = wide_keys(common);
        let (base, steps): (_, &[_]) = match on_cuda_cores {
            true => (DECODE_CUDA_CORES, &[(wide, 3), (wide, 2), (8, 3), (8, 2), (32, 2), (4, 2)]),
            false => (DECODE_MMA, &[(wide, 3), (wide, 2), (16, 3), (16, 2)]),
        };
        let base = Facts { tile_rows: request.decode_rows(request.group), ctas_per_sm: 1, ..base };
        let usual = request.widened(common, on_cuda_cores);
        // as in decode, decoded rows hold partial states that stages do not
        let decoded = common.packed.map(|_| [true, usual[1] || !common.values_share_keys]);
        let mut all = Vec::new();
        for widened in [usual].into_iter().chain(decoded) {
            for &prefill in parts {
                let warps = prefill.warps + prefill.producer_warps;
                let of = |&(warp_keys, stages)| Facts { warps, warp_keys, stages, widened, ..base };
                let decode = steps.iter().map(of).filter(|of| of.holds_partials(common));
                let decode = decode.map(|of| of.with_worker_smem(common));
                all.extend(decode.map(|decode| Parts { prefill, decode, shared_rows: request.shared_rows }));
            }
        }
        all
    }

    /// Its sizes are those of the prefill part. Its headers come behind the namespaces of both.
    pub(super) fn facts(&self) -> Facts {
        let own_sms = self.prefill.wgmma.is_some();
        let headers = if own_sms { &["mixed/sm90_kernel.cuh"] } else { &["mixed/kernel.cuh"] };
        let (kind, smem_bytes) = (KernelKind::Mixed, self.smem_bytes());
        Facts { kind, headers, part_headers: &[], smem_bytes, has_workers: false, ..self.prefill }
    }

    fn smem_bytes(&self) -> u32 {
        self.decode.smem_bytes.max(self.prefill.smem_bytes)
    }
}
