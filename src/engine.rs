//! The engine: where attention runs.

use std::fmt;

#[cfg(feature = "cuda")]
use attn_kernels::cuda::Device;
use half::{bf16, f16};

use crate::{
    Attention, AttentionOptions, DeviceBuffer, Dtype, Dtypes, Error, Heads, Stream, Variant, Workspace, memory,
    tensor::Element,
};

/// Where attention runs: a CUDA device, or the CPU. Cheap to clone.
///
/// The same program runs on either: an engine makes the memory, streams and workspaces that its attentions take.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) backend: Backend,
}

#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(Device),
}

impl Backend {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Backend::Cpu => "the CPU",
            #[cfg(feature = "cuda")]
            Backend::Cuda(_) => "a CUDA device",
        }
    }
}

impl Engine {
    /// CUDA device 0 where there is one, else the CPU.
    ///
    /// # Errors
    ///
    /// A CUDA device that is there but does not work. No driver, no device, or a device older than compute capability 8.0 is no
    /// error: the engine is then the CPU, and the reason is reported through `tracing`.
    pub fn auto() -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        {
            use attn_kernels::cuda::CudaError;
            match Self::cuda(0) {
                Err(Error::Cuda(reason)) => match *reason {
                    CudaError::NoDriver { .. } | CudaError::NoDevice { .. } | CudaError::TooOld { .. } => {
                        tracing::info!(%reason, "running on the CPU");
                    }
                    reason => return Err(reason.into()),
                },
                engine => return engine,
            }
        }
        Ok(Self::cpu())
    }

    /// The CPU, all of its threads (those of rayon's pool).
    #[must_use]
    pub fn cpu() -> Self {
        Engine { backend: Backend::Cpu }
    }

    /// A CUDA device, through its primary context.
    ///
    /// # Errors
    ///
    /// No driver, no such device, one older than compute capability 8.0, or a build without the CUDA backend.
    pub fn cuda(ordinal: u32) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        {
            crate::register_embedded();
            Ok(Engine { backend: Backend::Cuda(Device::new(ordinal)?) })
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = ordinal;
            Err(Error::NoCuda)
        }
    }

    /// Whether this is the CPU.
    #[must_use]
    pub fn is_cpu(&self) -> bool {
        matches!(self.backend, Backend::Cpu)
    }

    /// The CUDA device, unless this is the CPU.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        match &self.backend {
            Backend::Cpu => None,
            Backend::Cuda(device) => Some(device),
        }
    }

    /// Binds a variant to heads and element types.
    ///
    /// # Errors
    ///
    /// Parameters or heads that are not allowed; on CUDA, also heads, types or hooks that no kernel has.
    pub fn attention(&self, variant: &Variant, heads: Heads, dtypes: Dtypes) -> Result<Attention, Error> {
        self.attention_with(variant, heads, dtypes, AttentionOptions::default())
    }

    /// As [`Engine::attention`], with options.
    ///
    /// # Errors
    ///
    /// As [`Engine::attention`].
    pub fn attention_with(
        &self,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Attention, Error> {
        Attention::new(self, variant, heads, dtypes, options)
    }

    /// An empty workspace; planning grows it.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        Workspace::new(self)
    }

    /// A stream of its own. On the CPU, where a run returns when it is done, it is nothing but a token.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Memory that holds a copy of `data`. On the CPU it is host memory.
    ///
    /// # Errors
    ///
    /// No memory, or a failure of the driver.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::upload(self, T::DTYPE, bytemuck::cast_slice(data))
    }

    /// Memory for so many elements, all zero.
    ///
    /// # Errors
    ///
    /// No memory, or a failure of the driver.
    pub fn alloc(&self, dtype: Dtype, elements: usize) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::zeroed(self, dtype, elements)
    }

    /// A copy of a buffer's elements, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// Elements of another type, a buffer of another engine, or what a kernel ran into.
    pub fn download<T: Element>(&self, buffer: &DeviceBuffer) -> Result<Vec<T>, Error> {
        if buffer.dtype() != T::DTYPE {
            let (have, want) = (format!("elements of {}", buffer.dtype()), T::DTYPE.to_string());
            return Err(Error::Elements { have, want });
        }
        memory::check_same(self, buffer)?;
        let mut out = vec![T::from_f32(0.0); buffer.elements()];
        buffer.read(bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }

    /// As [`Engine::download`], of any type, in f32 (exact for every type).
    ///
    /// # Errors
    ///
    /// As [`Engine::download`].
    pub fn download_f32(&self, buffer: &DeviceBuffer) -> Result<Vec<f32>, Error> {
        fn widened<T: Element>(data: &[T]) -> Vec<f32> {
            data.iter().map(|x| x.to_f32()).collect()
        }
        Ok(match buffer.dtype() {
            Dtype::F16 => widened(&self.download::<f16>(buffer)?),
            Dtype::Bf16 => widened(&self.download::<bf16>(buffer)?),
            Dtype::F32 => self.download::<f32>(buffer)?,
        })
    }
}

/// `CPU (2 threads)`, or the name of the CUDA device.
impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu => {
                let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                write!(f, "CPU ({threads} threads)")
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => write!(f, "{} (CUDA device {})", device.name(), device.ordinal()),
        }
    }
}
