//! The launch of an op. Its arrays and tensors are bound once: that gives their addresses for the parameters, and notes
//! their owners, so that none can be forgotten in the order of streams.

use attn_core::ops::{Array, ArrayMut, Number, OpError};
use attn_core::sampling::PerRow;
use attn_core::tensor::{Scale, TensorError, TensorMut, TensorRef};
use cudarc::driver::sys::CUfunction;
use smallvec::SmallVec;

use super::{Op, module, stride};
use crate::cuda::driver::device::Current;
use crate::cuda::driver::launch_kernel::launch_kernel;
use crate::cuda::driver::order::{Used, order};
use crate::cuda::driver::stream_state::Submission;
use crate::cuda::driver::uses::Access::{self, Read, Write};
use crate::cuda::{CudaError, CudaStream};
use crate::launch::Strided;

/// Stands for the second parameter, which most kernels of ops do not have.
pub(super) const NOTHING: [u8; 16] = [0; 16];

/// What most launches bind at most, without an allocation.
const USES: usize = 24;

/// A launch whose memory is being bound.
#[derive(Default)]
pub(super) struct OpLaunch<'a> {
    uses: SmallVec<[(Access, Used<'a>); USES]>,
}

impl<'a> OpLaunch<'a> {
    /// The address of an array that the kernel reads.
    pub(super) fn read<T: Number>(&mut self, name: &'static str, of: &Array<'a, T>) -> Result<u64, CudaError> {
        self.uses.push((Read, (name, of.owner())));
        aligned(name, of.device_ptr(), size_of::<T>())
    }

    /// The address of an array that the kernel writes.
    pub(super) fn write<T: Number>(&mut self, name: &'static str, of: &ArrayMut<'a, T>) -> Result<u64, CudaError> {
        self.uses.push((Write, (name, of.owner())));
        aligned(name, of.device_ptr(), size_of::<T>())
    }

    /// As [`OpLaunch::read`]; 0 where there is no array.
    pub(super) fn read_if<T: Number>(
        &mut self,
        name: &'static str,
        of: Option<&Array<'a, T>>,
    ) -> Result<u64, CudaError> {
        of.map_or(Ok(0), |of| self.read(name, of))
    }

    /// As [`OpLaunch::write`]; 0 where there is no array.
    pub(super) fn write_if<T: Number>(
        &mut self,
        name: &'static str,
        of: Option<&ArrayMut<'a, T>>,
    ) -> Result<u64, CudaError> {
        of.map_or(Ok(0), |of| self.write(name, of))
    }

    /// The address of a parameter of rows, or 0 and the value of all.
    pub(super) fn per_row<T: Number>(&mut self, name: &'static str, of: &PerRow<'a, T>) -> Result<(u64, T), CudaError> {
        match of {
            PerRow::All(all) => Ok((0, *all)),
            PerRow::Rows(rows) => Ok((self.read(name, rows)?, T::zeroed())),
        }
    }

    /// The address of a tensor that the kernel reads.
    pub(super) fn read_tensor(&mut self, name: &'static str, of: &TensorRef<'a>) -> Result<u64, CudaError> {
        self.tensor(Read, name, of)
    }

    /// The address of a tensor that the kernel writes.
    pub(super) fn write_tensor(&mut self, name: &'static str, of: &TensorMut<'a>) -> Result<u64, CudaError> {
        self.uses.push((Write, (name, of.owner())));
        address(name, &of.as_ref())
    }

    /// The address of a tensor.
    pub(super) fn tensor(&mut self, access: Access, name: &'static str, of: &TensorRef<'a>) -> Result<u64, CudaError> {
        self.uses.push((access, (name, of.owner())));
        address(name, of)
    }

    /// A tensor of (tokens, heads, dim) or (pages, slots, heads, dim).
    pub(super) fn strided(
        &mut self,
        access: Access,
        name: &'static str,
        of: &TensorRef<'a>,
    ) -> Result<Strided, CudaError> {
        let rank = of.shape().len();
        let at = |dim| stride(of.shape(), of.strides(), dim);
        let page = if rank == 4 { at(0) } else { 0 };
        Ok(Strided { data: self.tensor(access, name, of)?, token: at(rank - 3), head: at(rank - 2), page })
    }

    /// The address of factors of heads; 0 where all have one.
    pub(super) fn read_scales(&mut self, name: &'static str, of: &Scale<'a>) -> Result<u64, CudaError> {
        of.heads.as_ref().map_or(Ok(0), |heads| self.read_tensor(name, heads))
    }

    /// Notes the owners of memory whose addresses are found elsewhere.
    pub(super) fn uses(&mut self, access: Access, memory: impl IntoIterator<Item = Used<'a>>) {
        self.uses.extend(memory.into_iter().map(|used| (access, used)));
    }

    /// The kernel of an op with a number, after conflicting work of other streams on what is bound.
    pub(super) fn ordered(self, stream: &CudaStream, op: Op, number: usize) -> Result<Ordered<'_>, CudaError> {
        let current = stream.device().make_current()?;
        let function = module::kernel(stream, op, number)?;
        self.ordered_in(stream, function, current)
    }

    /// As [`OpLaunch::ordered`], of a kernel that is loaded.
    pub(super) fn ordered_of(self, stream: &CudaStream, function: CUfunction) -> Result<Ordered<'_>, CudaError> {
        self.ordered_in(stream, function, stream.device().make_current()?)
    }

    fn ordered_in(self, stream: &CudaStream, function: CUfunction, current: Current) -> Result<Ordered<'_>, CudaError> {
        let submission = stream.submission();
        self.uses.into_iter().try_for_each(|(access, used)| order(stream, access, [used]))?;
        Ok(Ordered { stream, function, _submission: submission, _current: current })
    }
}

/// A kernel that comes next in the order of a stream.
pub(super) struct Ordered<'s> {
    stream: &'s CudaStream,
    function: CUfunction,
    _submission: Submission<'s>,
    _current: Current,
}

impl Ordered<'_> {
    /// Launches the kernel, unless the grid is empty.
    ///
    /// # Safety
    ///
    /// P is, or begins with, the first parameter of the kernel, which keeps inside the memory that was bound.
    pub(super) unsafe fn launch<P>(
        &self,
        grid: (u32, u32),
        threads: u32,
        smem: u32,
        params: &P,
    ) -> Result<(), CudaError> {
        // SAFETY: by the caller's promise; kernels of ops have no other parameter.
        unsafe { self.launch_with(grid, threads, smem, params, &NOTHING) }
    }

    /// As [`Ordered::launch`], with a second parameter.
    ///
    /// # Safety
    ///
    /// Beside that of [`Ordered::launch`]: `second` has at least the bytes of the second parameter.
    pub(super) unsafe fn launch_with<P>(
        &self,
        grid: (u32, u32),
        threads: u32,
        smem: u32,
        params: &P,
        second: &[u8],
    ) -> Result<(), CudaError> {
        // SAFETY: by the caller's promise.
        unsafe { launch_kernel(self.function, grid, threads, smem, self.stream, params, second) }
    }
}

/// The address of a tensor, aligned to its elements unless it is empty.
fn address(name: &'static str, tensor: &TensorRef<'_>) -> Result<u64, CudaError> {
    let host = TensorError::Memory { tensor: name, got: "host", want: "device" };
    let (ptr, size) = (tensor.device_ptr().ok_or(host)?, tensor.dtype().size());
    let natural = tensor.shape().contains(&0) || ptr.is_multiple_of(size as u64);
    if natural { Ok(ptr) } else { Err(CudaError::Misaligned { array: name, ptr, size }) }
}

/// The address of an array, aligned to its elements.
fn aligned(array: &'static str, ptr: Option<u64>, size: usize) -> Result<u64, CudaError> {
    let ptr = ptr.ok_or(OpError::Memory { array, got: "host", want: "device" })?;
    let natural = ptr.is_multiple_of(size as u64);
    if natural { Ok(ptr) } else { Err(CudaError::Misaligned { array, ptr, size }) }
}

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtype;

    use super::*;

    #[test]
    fn misaligned_elements_are_refused() {
        let at = |ptr, dtype, shape: &[usize]| {
            // SAFETY: it is never read.
            let tensor = unsafe { TensorRef::device(ptr, dtype, shape, &[1]) }.expect("a shape");
            address("lse", &tensor)
        };
        for (dtype, size) in [(Dtype::F32, 4), (Dtype::F16, 2), (Dtype::Bf16, 2), (Dtype::E4m3, 1)] {
            assert!(matches!(at(0x1000 + size as u64, dtype, &[3]), Ok(ptr) if ptr == 0x1000 + size as u64));
            for ptr in 0x1001..0x1000 + size as u64 {
                let error = at(ptr, dtype, &[3]).expect_err("between elements");
                let text = error.to_string();
                assert!(matches!(error, CudaError::Misaligned { array: "lse", .. }), "{text}");
                assert!(text.contains(&format!("{ptr:#x}")) && text.contains(&format!("multiple of {size}")), "{text}");
            }
        }
        assert!(at(0x1001, Dtype::F32, &[0]).is_ok(), "there is nothing there");
        let host = [0f32];
        let error = address("lse", &TensorRef::host(&host, &[1]).expect("fits")).expect_err("on the host");
        assert!(matches!(error, CudaError::Tensor(TensorError::Memory { tensor: "lse", .. })));
    }
}
