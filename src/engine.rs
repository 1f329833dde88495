//! The engine: where attention runs.

use std::fmt;

#[cfg(feature = "cuda")]
use attn_kernels::cuda::Device;
use half::{bf16, f16};

use crate::{
    Attention, AttentionOptions, DeviceBuffer, Dtype, Dtypes, Error, Heads, Stream, Variant, Workspace,
    lang::{F8E4M3, F8E5M2},
    memory,
    tensor::Element,
};

/// Where attention runs: a CUDA device, or the CPU. Cheap to clone.
///
/// The same program runs on either: an engine makes the memory, streams and workspaces that its attentions take. All of these are
/// `Send` and `Sync`: several threads may plan and run at once, each into a workspace of its own.
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
    /// Parameters, heads or types that are not allowed (q and o of 8 bits); on CUDA, also heads, types or hooks that no kernel has.
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
            Dtype::E4m3 => widened(&self.download::<F8E4M3>(buffer)?),
            Dtype::E5m2 => widened(&self.download::<F8E5M2>(buffer)?),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Kv, Out, TensorRef, tensor::TensorError};

    const HEADS: Heads = Heads { qo: 2, kv: 1, head_dim: 8 };

    #[test]
    fn a_run_on_the_cpu_from_end_to_end() {
        let engine = Engine::cpu();
        let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
        let mut workspace = engine.workspace();
        let plan = attention.plan(&Batch::ragged(&[0, 1, 2], &[0, 3, 3]), &mut workspace).expect("planned");
        let q = engine.upload(&[0.5f32; 2 * 2 * 8]).expect("memory");
        let kv = engine.upload(&[2.0f32; 3 * 8]).expect("memory");
        let mut o = engine.alloc(Dtype::F32, 2 * 2 * 8).expect("memory");
        let mut lse = engine.alloc(Dtype::F32, 2 * 2).expect("memory");
        let stream = engine.stream().expect("a token");
        let keys = || kv.tensor(&[3, 1, 8]).expect("fits");
        let out = Out::with_lse(o.tensor_mut(&[2, 2, 8]).expect("fits"), lse.tensor_mut(&[2, 2]).expect("fits"));
        plan.run(&stream, q.tensor(&[2, 2, 8]).expect("fits"), Kv::ragged(keys(), keys()), out).expect("runs");
        let o = engine.download::<f32>(&o).expect("f32");
        assert!(o[..16].iter().all(|x| (x - 2.0).abs() < 1e-6) && o[16..].iter().all(|&x| x == 0.0), "{o:?}");
        let lse = engine.download_f32(&lse).expect("f32");
        assert!((lse[0] - (8.0 / 8f32.sqrt() + 3f32.ln())).abs() < 1e-5 && lse[2] == f32::NEG_INFINITY, "{lse:?}");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let engine = Engine::cpu();
        let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
        let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 1]), &mut engine.workspace()).expect("planned");
        let stream = engine.stream().expect("a token");
        let data = engine.upload(&[0f32; 16]).expect("memory");
        let mut o = engine.alloc(Dtype::F32, 16).expect("memory");
        // SAFETY: the pointer is never dereferenced: the CPU backend refuses device memory.
        let foreign = unsafe { TensorRef::device(0x1000, Dtype::F32, &[1, 1, 8], &[8, 8, 1]) }.expect("a shape");
        let q = data.tensor(&[1, 2, 8]).expect("fits");
        let out = Out::new(o.tensor_mut(&[1, 2, 8]).expect("fits"));
        let error = plan.run(&stream, q, Kv::ragged(foreign, foreign), out).expect_err("device memory");
        assert!(error.to_string().contains("device") && error.to_string().contains("host"), "{error}");

        assert!(matches!(data.tensor(&[17]), Err(Error::Tensor(TensorError::Extent { .. }))));
        assert!(matches!(engine.download::<f16>(&data), Err(Error::Elements { .. })));
        let three = Heads { qo: 2, kv: 3, head_dim: 8 };
        assert!(matches!(engine.attention(&Variant::full(), three, Dtypes::f32()), Err(Error::Heads(_))));
        assert!(matches!(attention.plan(&Batch::ragged(&[0, 1], &[0]), &mut engine.workspace()), Err(Error::Batch(_))));
    }

    #[test]
    fn a_machine_without_a_gpu_says_so_and_runs_on_the_cpu() {
        match Engine::cuda(0) {
            Ok(engine) => assert!(!engine.is_cpu()),
            Err(error) => {
                assert!(
                    error.to_string().contains("Engine::cpu()") || error.to_string().contains("device 0"),
                    "{error}"
                );
                assert!(Engine::auto().expect("the CPU is always there").is_cpu());
            }
        }
    }
}
