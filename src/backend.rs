//! The two backends, and the one place that tells them apart.
//!
//! An object of the facade holds a [`Backend`]: the object of the CPU, or that of a CUDA device. Both have the same
//! methods where they can, so that [`on_backend!`] and its kin call either with one expression.

#[cfg(not(feature = "cuda"))]
use std::{convert::Infallible, marker::PhantomData};

use crate::Error;

#[cfg(feature = "cuda")]
pub(crate) use attn_kernels::cuda::ops::CudaKvTransform;
#[cfg(feature = "cuda")]
pub(crate) use attn_kernels::cuda::{
    CudaAttention, CudaBatchChecker, CudaBuffer, CudaGraph, CudaHostBuffer, CudaPlan, CudaPreparation, CudaStaging,
    CudaStream, CudaWorkspace, Device, NcclRank,
};

/// Stands for the types of the CUDA backend in a build without it. There is no such object.
#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use std::convert::Infallible;

    pub(crate) type CudaAttention = Infallible;
    pub(crate) type CudaBatchChecker = Infallible;
    pub(crate) type CudaBuffer = Infallible;
    pub(crate) type CudaGraph = Infallible;
    pub(crate) type CudaHostBuffer = Infallible;
    pub(crate) type CudaKvTransform = Infallible;
    pub(crate) type CudaPlan = Infallible;
    pub(crate) type CudaPreparation = Infallible;
    pub(crate) type CudaStaging = Infallible;
    pub(crate) type CudaStream = Infallible;
    pub(crate) type CudaWorkspace = Infallible;
    pub(crate) type Device = Infallible;
    pub(crate) type NcclRank = Infallible;
}
#[cfg(not(feature = "cuda"))]
pub(crate) use without_cuda::*;

/// An object of one of the two backends.
#[derive(Clone, Debug)]
pub(crate) enum Backend<C, G> {
    Cpu(C),
    #[cfg(feature = "cuda")]
    Cuda(G),
    /// There is none in a build without CUDA.
    #[cfg(not(feature = "cuda"))]
    #[allow(dead_code)]
    Cuda(Infallible, PhantomData<G>),
}

const CPU: &str = "the CPU";
const CUDA: &str = "a CUDA device";

impl<C, G> Backend<C, G> {
    /// The name of the backend, as errors have it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Backend::Cpu(_) => CPU,
            Backend::Cuda(..) => CUDA,
        }
    }

    /// Refuses an object of another backend; `what` names it.
    pub(crate) fn check<D, H>(&self, what: &'static str, other: &Backend<D, H>) -> Result<(), Error> {
        let (got, want) = (other.name(), self.name());
        if got == want { Ok(()) } else { Err(Error::Backend { what, got, want }) }
    }

    /// The object of the CPU; `what` names it.
    pub(crate) fn cpu(&self, what: &'static str) -> Result<&C, Error> {
        match self {
            Backend::Cpu(object) => Ok(object),
            Backend::Cuda(..) => Err(Error::Backend { what, got: CUDA, want: CPU }),
        }
    }

    /// The object of a CUDA device; `what` names it.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self, what: &'static str) -> Result<&G, Error> {
        self.as_cuda().ok_or(Error::Backend { what, got: CPU, want: CUDA })
    }

    /// The CUDA side of an engine or attention that `what`, which the CPU has not, is asked of.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_for(&self, what: &'static str) -> Result<&G, Error> {
        self.as_cuda().ok_or(Error::Backend { what, got: CUDA, want: CPU })
    }

    /// The object of a CUDA device; `None` on the CPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn as_cuda(&self) -> Option<&G> {
        match self {
            Backend::Cpu(_) => None,
            Backend::Cuda(object) => Some(object),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_mut(&mut self, what: &'static str) -> Result<&mut G, Error> {
        match self {
            Backend::Cpu(_) => Err(Error::Backend { what, got: CPU, want: CUDA }),
            Backend::Cuda(object) => Ok(object),
        }
    }
}

/// A `match` on a [`Backend`], with an arm for each, or with one expression for both: `on_backend!(&self.backend, plan
/// => plan.layout())`.
macro_rules! on_backend {
    ($backend:expr, $object:pat => $both:expr) => {
        $crate::backend::on_backend!($backend, { Cpu($object) => $both, Cuda($object) => $both })
    };
    ($backend:expr, { Cpu($cpu:pat) => $on_cpu:expr, Cuda($cuda:pat) => $on_cuda:expr $(,)? }) => {
        match $backend {
            $crate::backend::Backend::Cpu($cpu) => $on_cpu,
            #[cfg(feature = "cuda")]
            $crate::backend::Backend::Cuda($cuda) => $on_cuda,
            #[cfg(not(feature = "cuda"))]
            $crate::backend::Backend::Cuda(never, _) => match *never {},
        }
    };
}
pub(crate) use on_backend;

/// [`on_backend!`] for results of any errors that convert to [`Error`].
macro_rules! try_backend {
    ($backend:expr, $object:pat => $both:expr) => {
        $crate::backend::try_backend!($backend, { Cpu($object) => $both, Cuda($object) => $both })
    };
    ($backend:expr, { Cpu($cpu:pat) => $on_cpu:expr, Cuda($cuda:pat) => $on_cuda:expr $(,)? }) => {
        $crate::backend::on_backend!($backend, { Cpu($cpu) => Ok($on_cpu?), Cuda($cuda) => Ok($on_cuda?) })
    };
}
pub(crate) use try_backend;

/// [`on_backend!`] that makes a [`Backend`] of the results.
macro_rules! map_backend {
    ($backend:expr, $object:pat => $both:expr) => {
        $crate::backend::map_backend!($backend, { Cpu($object) => $both, Cuda($object) => $both })
    };
    ($backend:expr, { Cpu($cpu:pat) => $on_cpu:expr, Cuda($cuda:pat) => $on_cuda:expr $(,)? }) => {
        $crate::backend::on_backend!($backend, {
            Cpu($cpu) => $crate::backend::Backend::Cpu($on_cpu),
            Cuda($cuda) => $crate::backend::Backend::Cuda($on_cuda),
        })
    };
}
pub(crate) use map_backend;
