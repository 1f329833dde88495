//! The mathematics on the CPU: f32, on all threads of rayon's pool.

mod linear;

use std::sync::Arc;

use attn::{DeviceBuffer, Dtype, Engine, Stream, TensorMut, ops::Array};
use rayon::prelude::*;

use super::{Math, Matrix};
use crate::Error;

/// The CPU. Each element of a result is computed in one order, whatever the number of rows and threads: it is always
/// batch-invariant.
#[derive(Debug)]
pub struct CpuMath {
    engine: Engine,
    stream: Arc<Stream>,
    arch: pulp::Arch,
    /// Results of panels of outputs, before they are put into rows.
    panels: Vec<f32>,
}

impl CpuMath {
    /// The CPU, with the widest vectors that it has.
    pub fn new() -> Result<Self, Error> {
        let engine = Engine::cpu();
        Ok(CpuMath { stream: Arc::new(engine.stream()?), engine, arch: pulp::Arch::new(), panels: Vec::new() })
    }
}

/// The first elements of a buffer.
fn read(buffer: &DeviceBuffer, elements: usize) -> Result<&[f32], Error> {
    let tensor = buffer.tensor(&[elements])?;
    Ok(&tensor.as_host::<f32>().ok_or_else(|| not_here(buffer.dtype()))?[..elements])
}

/// The elements of a tensor to write, like [`read`].
fn write<'a>(tensor: &'a mut TensorMut<'_>, elements: usize) -> Result<&'a mut [f32], Error> {
    let dtype = tensor.dtype();
    Ok(&mut tensor.as_host_mut::<f32>().ok_or_else(|| not_here(dtype))?[..elements])
}

fn not_here(dtype: Dtype) -> attn::Error {
    attn::Error::Elements { have: format!("elements of {dtype}"), want: "f32 in host memory".to_owned() }
}

impl Math for CpuMath {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn weights(&self, values: &[f32]) -> Result<DeviceBuffer, Error> {
        Ok(self.engine.upload(values)?)
    }

    fn embed(
        &mut self,
        table: &Matrix,
        tokens: Array<'_, i32>,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        take_rows(&table.values, table.inputs, table.outputs, tokens, out, rows)
    }

    fn rms_norm(
        &mut self,
        x: &DeviceBuffer,
        weight: &DeviceBuffer,
        eps: f32,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        let width = weight.elements();
        let (x, weight) = (read(x, rows * width)?, read(weight, width)?);
        let mut out = out.tensor_mut(&[rows * width])?;
        let pairs = write(&mut out, rows * width)?.par_chunks_exact_mut(width).zip(x.par_chunks_exact(width));
        pairs.with_min_len(4).for_each(|(out, x)| {
            let mean = x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / width as f64;
            let scale = (1.0 / (mean + f64::from(eps)).sqrt()) as f32;
            out.iter_mut().zip(x).zip(weight).for_each(|((out, x), weight)| *out = x * scale * weight);
        });
        Ok(())
    }

    fn linear(
        &mut self,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error> {
        let &Matrix { outputs, inputs, .. } = weight;
        let mut out = out.tensor_mut(&[rows * outputs])?;
        let product = linear::Product {
            arch: self.arch,
            weight: read(&weight.values, outputs * inputs)?,
            x: read(x, rows * inputs)?,
            outputs,
            inputs,
            rows,
        };
        product.run(write(&mut out, rows * outputs)?, accumulate, &mut self.panels);
        Ok(())
    }

    fn silu_mul(
        &mut self,
        gate_up: &DeviceBuffer,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        let gate_up = read(gate_up, rows * 2 * width)?;
        let mut out = out.tensor_mut(&[rows * width])?;
        let out = write(&mut out, rows * width)?;
        let pairs = out.par_chunks_exact_mut(width).zip(gate_up.par_chunks_exact(2 * width));
        pairs.with_min_len(4).for_each(|(out, gate_up)| {
            let (gate, up) = gate_up.split_at(width);
            out.iter_mut().zip(gate).zip(up).for_each(|((out, gate), up)| *out = gate / (1.0 + (-gate).exp()) * up);
        });
        Ok(())
    }

    fn gather_rows(
        &mut self,
        x: &DeviceBuffer,
        indices: Array<'_, i32>,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        take_rows(x, width, x.elements() / width, indices, out, rows)
    }
}

/// Copies the rows that `indices` name; zeros where there is none.
fn take_rows(
    from: &DeviceBuffer,
    width: usize,
    from_rows: usize,
    indices: Array<'_, i32>,
    out: &mut DeviceBuffer,
    rows: usize,
) -> Result<(), Error> {
    let from = read(from, from_rows * width)?;
    let indices = indices.first(rows).map_err(attn::Error::from)?;
    let indices = indices.as_host().ok_or_else(|| not_here(Dtype::F32))?;
    let mut out = out.tensor_mut(&[rows * width])?;
    for (out, &index) in write(&mut out, rows * width)?.chunks_exact_mut(width).zip(indices) {
        match usize::try_from(index).ok().filter(|index| *index < from_rows) {
            Some(index) => out.copy_from_slice(&from[index * width..][..width]),
            None => out.fill(0.0),
        }
    }
    Ok(())
}
