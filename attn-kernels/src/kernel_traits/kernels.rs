//! The kernels that run alone or as a part of a mixed one: a template of CUDA each, with all that the host knows of it
//! in one file.

pub(super) mod decode_cuda_cores;
pub(super) mod decode_mma;
pub(super) mod prefill_cuda_cores;
pub(super) mod prefill_sm80;
pub(super) mod prefill_sm90;
pub(super) mod prefill_sm90_e4m3;
pub(super) mod prefill_sm90_resident;

use super::common::{CommonTraits, STATIC_BYTES, panels};
use super::cuda_cores;
use super::kernel::{Facts, Kernel, Preprocessed, WARPGROUP_ROWS};
use super::request::{DTYPES, KernelTraitsRequest};
use super::worker_tiles::{WorkerTiles, row_pitch};
use crate::cost::CostKernel;

/// The list of kernels. Of those that run a problem the first is chosen.
macro_rules! kernels {
    ($($file:ident::$kernel:ident,)*) => {
        /// A kernel with the tiles that were chosen for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the files of the kernels say what they are
        pub enum Single {
            $($kernel($file::$kernel),)*
        }

        impl Single {
            /// The first kernel that runs a problem.
            pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
                let none = None;
                $(let none = none.or_else(|| $file::$kernel::choose(request, common).map(Single::$kernel));)*
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
    decode_cuda_cores::DecodeCudaCores,
    decode_mma::DecodeMma,
    prefill_cuda_cores::PrefillCudaCores,
    prefill_sm90_e4m3::PrefillSm90E4m3,
    prefill_sm90_resident::PrefillSm90Resident,
    prefill_sm90::PrefillSm90,
    prefill_sm80::PrefillSm80,
}
