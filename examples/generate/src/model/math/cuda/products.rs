//! Products of activations with weight matrices.
//!
//! An algorithm is chosen once for each shape. Rows are padded to few sizes, so that few shapes occur: what is computed
//! for the padding is not read.

use std::{collections::HashMap, ffi::c_void, sync::Arc};

use attn::{DeviceBuffer, Dtype, Engine, Stream};
use cudarc::{
    cublaslt::{result, sys},
    driver::{CudaContext, DriverError},
};

use super::{
    super::Matrix,
    blas::{self, Handle, Layout, Operation, failed},
    rows::of_f16,
};
use crate::Error;

/// Bytes of workspace of a product. NVIDIA advises 32 MiB for Hopper.
const WORKSPACE: usize = 32 << 20;
/// From here on, rows are padded to multiples; fewer are padded to powers of two. In batch-invariant mode every product
/// has this many.
const TILE: usize = 64;

/// cuBLASLt and the algorithms that were chosen so far.
#[derive(Debug)]
pub(super) struct Products {
    chosen: HashMap<Shape, Product>,
    handle: Handle,
    workspace: DeviceBuffer,
    fixed_rows: bool,
    /// Of the engine's device; cuBLASLt uses the context that is current.
    context: Arc<CudaContext>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    outputs: usize,
    inputs: usize,
    rows: usize,
    to_f32: bool,
}

/// How a shape is computed.
#[derive(Debug)]
struct Product {
    operation: Operation,
    weight: Layout,
    x: Layout,
    out: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Products {
    pub(super) fn new(engine: &Engine, fixed_rows: bool) -> Result<Self, Error> {
        let context = CudaContext::new(engine.device().ok_or_else(on_cpu)?.ordinal() as usize).map_err(no_context)?;
        let (handle, workspace) = (blas::handle()?, engine.alloc(Dtype::F16, WORKSPACE / 2)?);
        Ok(Products { chosen: HashMap::new(), handle, workspace, fixed_rows, context })
    }

    /// Chooses the algorithms for up to `max_rows` rows.
    pub(super) fn prepare(&mut self, matrix: &Matrix, max_rows: usize) -> Result<(), Error> {
        self.bind()?;
        let mut rows: Vec<usize> = (1..=max_rows).map(|rows| self.padded_rows(rows)).collect();
        rows.iter_mut().filter(|_| self.fixed_rows).for_each(|rows| *rows = TILE);
        rows.dedup();
        for rows in rows {
            for to_f32 in [false, true] {
                self.choose(Shape { outputs: matrix.outputs, inputs: matrix.inputs, rows, to_f32 })?;
            }
        }
        Ok(())
    }

    /// The rows that a product of `rows` rows computes, if there is memory for them.
    pub(super) fn padded_rows(&self, rows: usize) -> usize {
        padded_rows(rows, self.fixed_rows)
    }

    /// Multiplies through cuBLASLt, as [`Math::linear`](super::Math::linear) says.
    pub(super) fn run(
        &mut self,
        stream: &Stream,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error> {
        let Matrix { values, outputs, inputs } = weight;
        let (outputs, inputs, to_f32) = (*outputs, *inputs, out.dtype() == Dtype::F32);
        if !to_f32 {
            of_f16(out)?;
        }
        let most = (x.elements() / inputs).min(out.elements() / outputs);
        let padded = self.padded_rows(rows);
        // the fixed size of batch-invariant products is a must, other padding is not
        let rows = if padded <= most || self.fixed_rows { padded } else { rows };
        let [values, x] = [of_f16(values)?.tensor(&[outputs, inputs])?, of_f16(x)?.tensor(&[rows, inputs])?]
            .map(|tensor| tensor.device_ptr().unwrap_or(0));
        let out = out.tensor_mut(&[rows, outputs])?.device_ptr().unwrap_or(0);
        self.bind()?;
        let at_once = if self.fixed_rows { TILE } else { rows.max(1) };
        let shape = Shape { outputs, inputs, rows: at_once, to_f32 };
        for first in (0..rows).step_by(at_once) {
            let x = x + (first * inputs * 2) as u64;
            let out = out + (first * outputs * if to_f32 { 4 } else { 2 }) as u64;
            // SAFETY: the tensors have these shapes, on the device of the stream and of the current context.
            unsafe { self.launch(stream, shape, [values, x, out], accumulate) }?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The addresses are those of the weights, the activations and the result, on the device of the stream, whose
    /// context is current.
    unsafe fn launch(
        &mut self,
        stream: &Stream,
        shape: Shape,
        addresses: [u64; 3],
        accumulate: bool,
    ) -> Result<(), Error> {
        let raw = stream.as_raw().ok_or_else(on_cpu)?;
        let workspace = self.workspace.device_ptr().unwrap_or(0) as *mut c_void;
        let handle = self.handle.raw();
        let Product { operation, weight, x, out, algorithm } = self.choose(shape)?;
        let [a, b, c] = addresses.map(|address| address as *mut c_void);
        let (alpha, beta) = (1f32, if accumulate { 1f32 } else { 0f32 });
        // SAFETY: the descriptors live; the caller promises the memory.
        let launched = unsafe {
            result::matmul(
                handle,
                operation.raw(),
                blas::address(&alpha),
                blas::address(&beta),
                a,
                weight.raw(),
                b,
                x.raw(),
                c,
                out.raw(),
                c,
                out.raw(),
                &raw const *algorithm,
                workspace,
                WORKSPACE,
                raw.cast(),
            )
        };
        launched.map_err(failed("launch a product"))
    }

    /// How a shape is computed, by cuBLASLt's heuristics when it is first asked for.
    fn choose(&mut self, shape: Shape) -> Result<&Product, Error> {
        if !self.chosen.contains_key(&shape) {
            let product = Product::new(&self.handle, shape, !self.fixed_rows)?;
            self.chosen.insert(shape, product);
        }
        Ok(&self.chosen[&shape])
    }

    /// Makes the context of the device current.
    fn bind(&self) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(no_context)
    }
}

impl Product {
    /// Row-major matrices are column-major ones transposed, so `out = x weight^T` is `out^T = weight x^T` here.
    fn new(handle: &Handle, shape: Shape, splits_sums: bool) -> Result<Self, Error> {
        let Shape { outputs, inputs, rows, to_f32 } = shape;
        let (half, single) = (sys::cudaDataType::CUDA_R_16F, sys::cudaDataType::CUDA_R_32F);
        let operation = blas::transposed_product()?;
        let (weight, x) = (blas::layout(half, inputs, outputs)?, blas::layout(half, inputs, rows)?);
        let out = blas::layout(if to_f32 { single } else { half }, outputs, rows)?;
        let preference = blas::preference(WORKSPACE, splits_sums)?;
        // SAFETY: the descriptors live.
        let found = unsafe {
            result::get_matmul_algo_heuristic(
                handle.raw(),
                operation.raw(),
                weight.raw(),
                x.raw(),
                out.raw(),
                out.raw(),
                preference.raw(),
            )
        };
        let algorithm = found.map_err(failed("find an algorithm for a product"))?.algo;
        Ok(Product { operation, weight, x, out, algorithm })
    }
}

fn padded_rows(rows: usize, fixed_rows: bool) -> usize {
    if rows < TILE && !fixed_rows { rows.next_power_of_two() } else { rows.next_multiple_of(TILE) }
}

fn no_context(error: DriverError) -> Error {
    Error::Cublas { what: "use the device's context", status: error.to_string() }
}

fn on_cpu() -> Error {
    attn::Error::Backend { what: "engine", got: "the CPU", want: "a CUDA device" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sizes_of_products_occur() {
        assert_eq!([1, 2, 3, 33, 64, 65, 500].map(|rows| padded_rows(rows, false)), [1, 2, 4, 64, 64, 128, 512]);
        assert_eq!([1, 64, 65].map(|rows| padded_rows(rows, true)), [64, 64, 128]);
    }
}
