//! Fills memory of a device with random numbers.

use std::ops::Range;

use attn::{
    DeviceBuffer, Dtype,
    cuda::{Arg, Grid, Module},
};

use super::normal::normal;
use crate::{Error, model::math::Math};

const TEXT: &str = include_str!("fill.cu");
/// Threads of a CTA.
const THREADS: usize = 256;
/// Elements of a CTA.
const BLOCK: usize = THREADS * 64;

/// Writes random numbers, on the CPU or by a kernel.
#[derive(Debug)]
pub struct Fill {
    /// `None` on the CPU.
    kernel: Option<Module>,
}

impl Fill {
    /// Loads the kernel.
    ///
    /// # Errors
    ///
    /// Neither a kernel nor a compiler.
    pub fn new(math: &dyn Math) -> Result<Self, Error> {
        let load = || Module::new(math.engine(), "fill.cu", TEXT, &["fill"]);
        Ok(Fill { kernel: if math.engine().is_cpu() { None } else { Some(load()?) } })
    }

    /// Writes numbers of mean 0 to a range of elements. They depend on the key, the standard deviation and the place in
    /// the range alone, and are rounded to the type of the buffer: f32 on the CPU, f16 on CUDA.
    ///
    /// # Errors
    ///
    /// A range outside of the buffer, other element types, and failures of the device.
    pub fn normal(
        &self,
        math: &dyn Math,
        to: &mut DeviceBuffer,
        range: Range<usize>,
        key: u64,
        deviation: f32,
    ) -> Result<(), Error> {
        let Some(kernel) = &self.kernel else {
            let numbers: Vec<f32> = (0..range.len() as u64).map(|index| normal(key, index, deviation)).collect();
            return Ok(to.write(math.stream(), range.start, &numbers)?);
        };
        if to.dtype() != Dtype::F16 {
            let have = format!("elements of {}", to.dtype());
            return Err(attn::Error::Elements { have, want: Dtype::F16.to_string() }.into());
        }
        let (end, first, count) = (range.end, range.start as u64, range.len() as u64);
        let grid = Grid { ctas: (range.len().div_ceil(BLOCK) as u32, 1), threads: THREADS as u32, smem: 0 };
        let tensor = to.tensor_mut(&[end])?;
        let args =
            [Arg::value(&key), Arg::value(&deviation), Arg::value(&first), Arg::value(&count), Arg::write(&tensor)];
        // SAFETY: these are the parameters of the kernel, and the tensor has the elements up to the end of the range.
        Ok(unsafe { kernel.launch(math.stream(), 0, grid, &args) }?)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_compiles() {
        crate::model::compiles::compiles("fill.cu", super::TEXT, "fill");
    }
}
