//! The kernels that run alone or as a part of a mixed one: all that the host knows of each template in one file.

pub(super) mod decode_cuda_cores;
pub(super) mod decode_mma;
pub(super) mod prefill_cuda_cores;
pub(super) mod prefill_sm80;
pub(super) mod prefill_sm90;
mod prefill_sm90_e4m3;
mod prefill_sm90_latent;
pub(super) mod prefill_sm90_resident;

use attn_core::spec::PrefillBackend;

use super::common::{CommonTraits, STATIC_BYTES, panels};
use super::facts::Facts;
use super::request::{DTYPES, KernelTraitsRequest};
use super::worker_tiles::{CUDA_CORES, WORKERS};
use crate::cost::CostKernel;

/// A kernel with its tiles for a problem, if it has some.
type Tiles = fn(&KernelTraitsRequest, &CommonTraits) -> Option<Facts>;

/// The list of kernels, without and with their tiles. Of those that run a problem the first is chosen.
const KERNELS: [(Facts, Tiles); 8] = [
    (decode_cuda_cores::DECODE_CUDA_CORES, decode_cuda_cores::tiles),
    (decode_mma::DECODE_MMA, decode_mma::tiles),
    (prefill_cuda_cores::PREFILL_CUDA_CORES, prefill_cuda_cores::tiles),
    (prefill_sm90_e4m3::PREFILL_SM90_E4M3, prefill_sm90_e4m3::tiles),
    (prefill_sm90_latent::PREFILL_SM90_LATENT, prefill_sm90_latent::tiles),
    (prefill_sm90_resident::PREFILL_SM90_RESIDENT, prefill_sm90_resident::tiles),
    (prefill_sm90::PREFILL_SM90, prefill_sm90::tiles),
    (prefill_sm80::PREFILL_SM80, prefill_sm80::tiles),
];

/// The first kernel of the family, backend and compute type of a problem that has tiles for it.
pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Facts> {
    let sm90 =
        matches!(request.prefill, PrefillBackend::Sm90 | PrefillBackend::Sm90Resident) && common.arch.has_wgmma();
    let cuda_cores = request.runs_on_cuda_cores();
    let is_asked_for = |of: &Facts| {
        (of.kind, of.on_cuda_cores) == (request.kind, cuda_cores)
            && of.wgmma.is_none_or(|computes| sm90 && computes == request.compute_type)
            && of.special.is_none_or(|backend| backend == request.prefill)
    };
    KERNELS.iter().filter(|(of, _)| is_asked_for(of)).find_map(|(_, tiles)| tiles(request, common))
}
