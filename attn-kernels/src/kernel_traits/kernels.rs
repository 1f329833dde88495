//! The kernels that run alone or as a part of a mixed one: a template of CUDA each, with all that the host knows of it
//! in one file.

pub(super) mod decode_cuda_cores;
pub(super) mod decode_mma;
pub(super) mod prefill_cuda_cores;
pub(super) mod prefill_sm80;
pub(super) mod prefill_sm90;
mod prefill_sm90_e4m3;
mod prefill_sm90_latent;
pub(super) mod prefill_sm90_resident;

use super::common::{CommonTraits, STATIC_BYTES, panels};
use super::facts::{Facts, Preprocessed};
use super::request::{DTYPES, KernelTraitsRequest};
use super::worker_tiles::{CUDA_CORES, WORKERS};
use crate::cost::CostKernel;

/// Chooses the tiles of a kernel, if it runs a problem.
type Choose = fn(&KernelTraitsRequest, &CommonTraits) -> Option<Facts>;

/// The list of kernels. Of those that run a problem the first is chosen.
pub(super) const KERNELS: [Choose; 8] = [
    decode_cuda_cores::choose,
    decode_mma::choose,
    prefill_cuda_cores::choose,
    prefill_sm90_e4m3::choose,
    prefill_sm90_latent::choose,
    prefill_sm90_resident::choose,
    prefill_sm90::choose,
    prefill_sm80::choose,
];
