//! The kernels: a template of CUDA each, with all that the host knows of it in one file.

mod decode_cuda_cores;
mod decode_mma;
mod mixed;
mod prefill_cuda_cores;
mod prefill_sm80;
mod prefill_sm90;
mod prefill_sm90_e4m3;
mod prefill_sm90_resident;

use super::common::CommonTraits;
use super::kernel::Kernel;
use super::request::KernelTraitsRequest;
use decode_cuda_cores::DecodeCudaCores;
use decode_mma::DecodeMma;
use mixed::{DecodePart, Mixed, PrefillPart};
use prefill_cuda_cores::PrefillCudaCores;
use prefill_sm80::PrefillSm80;
use prefill_sm90::PrefillSm90;
use prefill_sm90_e4m3::PrefillSm90E4m3;
use prefill_sm90_resident::PrefillSm90Resident;

pub(crate) use mixed::OWN_SM_TIME;
#[cfg(test)]
pub(super) use prefill_sm90::PIPELINE_STATE_BYTES;
pub use prefill_sm90_resident::{RESIDENT_Q_TILES, resident_tile_rows};

/// The list of kernels. Of those that run a problem the first is chosen.
macro_rules! templates {
    ($($kernel:ident,)*) => {
        /// A kernel: its template, and the tiles that were chosen for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the files of the kernels say what they are
        pub enum Template {
            $($kernel($kernel),)*
        }

        impl Template {
            /// The first kernel that runs a problem.
            pub(super) fn choose(request: &KernelTraitsRequest, common: &CommonTraits) -> Option<Self> {
                $(
                    if let Some(kernel) = $kernel::choose(request, common) {
                        return Some(Template::$kernel(kernel));
                    }
                )*
                None
            }

            /// What the host knows of the kernel.
            pub(crate) fn kernel(&self) -> &dyn Kernel {
                match self {
                    $(Template::$kernel(kernel) => kernel,)*
                }
            }
        }
    };
}

templates! {
    DecodeCudaCores,
    DecodeMma,
    PrefillCudaCores,
    PrefillSm90E4m3,
    PrefillSm90Resident,
    PrefillSm90,
    PrefillSm80,
    Mixed,
}

impl Template {
    /// The decode part of a mixed kernel; of other kernels the kernel itself.
    pub(super) fn decode_part(self) -> Self {
        match self {
            Template::Mixed(Mixed { decode: DecodePart::Mma(kernel), .. }) => Template::DecodeMma(kernel),
            Template::Mixed(Mixed { decode: DecodePart::CudaCores(kernel), .. }) => Template::DecodeCudaCores(kernel),
            kernel => kernel,
        }
    }

    /// The prefill part of a mixed kernel; of other kernels the kernel itself.
    pub(super) fn prefill_part(self) -> Self {
        match self {
            Template::Mixed(Mixed { prefill: PrefillPart::Sm80(kernel), .. }) => Template::PrefillSm80(kernel),
            Template::Mixed(Mixed { prefill: PrefillPart::Sm90(kernel), .. }) => Template::PrefillSm90(kernel),
            Template::Mixed(Mixed { prefill: PrefillPart::CudaCores(kernel), .. }) => {
                Template::PrefillCudaCores(kernel)
            }
            kernel => kernel,
        }
    }

    /// The tiles of a kernel of workers.
    #[cfg(test)]
    pub(super) fn worker_tiles(self) -> Option<super::worker_tiles::WorkerTiles> {
        match self {
            Template::DecodeMma(DecodeMma(tiles))
            | Template::DecodeCudaCores(DecodeCudaCores(tiles))
            | Template::PrefillCudaCores(PrefillCudaCores(tiles)) => Some(tiles),
            _ => None,
        }
    }
}
