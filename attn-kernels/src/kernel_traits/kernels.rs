//! The kernels that run alone or as a part of a mixed one: a template of CUDA each, with all that the host knows of it
//! in one file.

mod decode_cuda_cores;
mod decode_mma;
mod prefill_cuda_cores;
mod prefill_sm80;
mod prefill_sm90;
mod prefill_sm90_e4m3;
mod prefill_sm90_resident;

use super::common::{CommonTraits, STATIC_BYTES, panels};
use super::cuda_cores;
use super::kernel::{Facts, Kernel, Preprocessed, WARPGROUP_ROWS};
use super::request::{DTYPES, KernelTraitsRequest};
use super::worker_tiles::{WorkerTiles, row_pitch};
use crate::cost::CostKernel;

pub(super) use decode_cuda_cores::DecodeCudaCores;
pub(super) use decode_mma::DecodeMma;
pub(super) use prefill_cuda_cores::PrefillCudaCores;
pub(super) use prefill_sm80::PrefillSm80;
pub(super) use prefill_sm90::PIPELINE_STATE_BYTES;
pub(super) use prefill_sm90::PrefillSm90;
pub(super) use prefill_sm90_e4m3::PrefillSm90E4m3;
pub(super) use prefill_sm90_resident::PrefillSm90Resident;
pub use prefill_sm90_resident::{RESIDENT_Q_TILES, resident_tile_rows};

/// The list of kernels. Of those that run a problem the first is chosen.
macro_rules! kernels {
    ($($kernel:ident,)*) => {
        /// A kernel with the tiles that were chosen for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the files of the kernels say what they are
        pub enum Single {
            $($kernel($kernel),)*
        }

        impl Single {
            /// The first kernel that runs a problem.
            pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
                let none = None;
                $(let none = none.or_else(|| $kernel::choose(request, common).map(Single::$kernel));)*
                none
            }

            /// What the host knows of it.
            pub(super) fn kernel(&self) -> &dyn Kernel {
                match self {
                    $(Single::$kernel(kernel) => kernel,)*
                }
            }
        }
    };
}

kernels! {
    DecodeCudaCores,
    DecodeMma,
    PrefillCudaCores,
    PrefillSm90E4m3,
    PrefillSm90Resident,
    PrefillSm90,
    PrefillSm80,
}
