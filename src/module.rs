//! CUDA C++ of the caller.

use attn_kernels::cuda::{Arg, CudaModule, Grid};

use crate::{Engine, Error, Stream};

/// Kernels in CUDA C++ of the caller, for what an engine does beside attention: norms, activations, gathers. They are
/// compiled and cached as the kernels of the library are, without a toolkit, and launched on the same streams and
/// memory. Unloaded on drop. `Send` and `Sync`.
///
/// ```no_run
/// use attn::{cuda::{Arg, Grid, Module}, prelude::*};
///
/// let scale = r#"
/// extern "C" __global__ void scale(const f16* x, float by, int count, float* y) {
///   int i = blockIdx.x * blockDim.x + threadIdx.x;
///   if (i < count) y[i] = by * to_float(x[i]);
/// }"#;
/// let (engine, count) = (Engine::cuda(0)?, 1000);
/// let module = Module::new(&engine, "scale", scale, &["scale"])?;
/// let (x, mut y) = (engine.upload(&vec![f16::ONE; count])?, engine.alloc(Dtype::F32, count)?);
/// let grid = Grid { ctas: (count.div_ceil(256) as u32, 1), threads: 256, smem: 0 };
/// // SAFETY: these are the types of the parameters, and the kernel keeps to `count` elements.
/// unsafe {
///     let (y, len) = (y.tensor_mut(&[count])?, count as i32);
///     let args = [Arg::read(&x.tensor(&[count])?), Arg::value(&2f32), Arg::value(&len), Arg::write(&y)];
///     module.launch(&engine.stream()?, 0, grid, &args)?;
/// }
/// assert_eq!(engine.download::<f32>(&y)?, vec![2.0; count]);
/// # Ok::<(), attn::Error>(())
/// ```
#[derive(Debug)]
pub struct Module(CudaModule);

impl Module {
    /// Compiles `text` for the engine's device, unless the cubin is embedded or cached, and loads it. `kernels` are the
    /// `extern "C"` entries, which [`Module::launch`] counts in this order. The text may use
    /// what kernels of ops use (`attn_kernels::splice::OpSource::custom`); messages call it `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] when the engine is the CPU; a text that does not compile, with the compiler's log; no
    /// compiler; an entry that is not there.
    pub fn new(engine: &Engine, name: &str, text: &str, kernels: &[&str]) -> Result<Self, Error> {
        Ok(Module(CudaModule::new(engine.backend.cuda_for("module")?, name, text, kernels)?))
    }

    /// Launches kernel number `kernel`, in the order of the stream. It allocates no device memory and waits for
    /// nothing, so that a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// A stream or memory of another device, memory of the host, a number past the kernels of the module, or a failure
    /// of the driver, such as too many threads. Nothing is launched then.
    ///
    /// # Safety
    ///
    /// The kernel takes parameters of these types, in this order. It keeps inside the memory of its arguments, and
    /// writes only to those that are given to be written.
    pub unsafe fn launch(&self, stream: &Stream, kernel: usize, grid: Grid, args: &[Arg<'_>]) -> Result<(), Error> {
        // SAFETY: the caller guarantees it.
        Ok(unsafe { self.0.launch(stream.cuda()?, kernel, grid, args) }?)
    }
}
