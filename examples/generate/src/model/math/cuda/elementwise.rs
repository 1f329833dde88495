//! Element-wise kernels: `elementwise.cu`, loaded and launched.

use attn::{
    DeviceBuffer, Dtype, Engine, Stream,
    cuda::{Arg, Grid, Module},
    ops::Array,
};

use super::super::Matrix;
use crate::Error;

pub(super) const NAME: &str = "elementwise.cu";
pub(super) const TEXT: &str = concat!(include_str!("elementwise.cu"), include_str!("few_rows.cu"));

/// The entries. Those of rows in f16 and in f32 are neighbours.
const ENTRIES: [&str; 13] = [
    "embed_f16",
    "embed_f32",
    "gather_f16",
    "gather_f32",
    "rms_norm_f16",
    "rms_norm_f32",
    "silu_mul",
    "product_1_f16",
    "product_1_f32",
    "product_2_f16",
    "product_2_f32",
    "product_4_f16",
    "product_4_f32",
];
const EMBED: usize = 0;
const GATHER: usize = 2;
const RMS_NORM: usize = 4;
const SILU_MUL: usize = 6;
/// Of 1, 2 and 4 rows.
const PRODUCT: usize = 7;

/// Rows of a product that [`Elementwise::product`] computes, at most.
pub(super) const FEW_ROWS: usize = 4;

/// Elements of a thread.
const VECTOR: usize = 8;
/// Threads of a CTA, at most.
const MAX_THREADS: usize = 1024;

/// The loaded kernels.
#[derive(Debug)]
pub(super) struct Elementwise(Module);

impl Elementwise {
    pub(super) fn new(engine: &Engine) -> Result<Self, Error> {
        Ok(Elementwise(Module::new(engine, NAME, TEXT, &ENTRIES)?))
    }

    pub(super) fn embed(
        &self,
        stream: &Stream,
        table: &Matrix,
        tokens: Array<'_, i32>,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        let (vocab, width) = (table.outputs, table.inputs);
        let entry = EMBED + of_rows(out)?;
        let grid = grid(rows, width, 128)?;
        let (table, out) = (f16(&table.values)?.tensor(&[vocab, width])?, out.tensor_mut(&[rows, width])?);
        let tokens = tokens.first(rows).map_err(attn::Error::from)?;
        let (vocab, width) = (vocab as i32, width as i32);
        let args =
            [Arg::read(&table), Arg::read_array(&tokens), Arg::value(&vocab), Arg::value(&width), Arg::write(&out)];
        // SAFETY: these are the parameters of the entry, and the tensors have the shapes that it keeps to.
        Ok(unsafe { self.0.launch(stream, entry, grid, &args) }?)
    }

    pub(super) fn gather_rows(
        &self,
        stream: &Stream,
        x: &DeviceBuffer,
        indices: Array<'_, i32>,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        let entry = GATHER + of_rows(x)?;
        same(x.dtype(), out.dtype())?;
        let grid = grid(rows, width, 128)?;
        let from = x.elements() / width;
        let (x, out) = (x.tensor(&[from, width])?, out.tensor_mut(&[rows, width])?);
        let indices = indices.first(rows).map_err(attn::Error::from)?;
        let (from, width) = (from as i32, width as i32);
        let args = [Arg::read(&x), Arg::read_array(&indices), Arg::value(&from), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.0.launch(stream, entry, grid, &args) }?)
    }

    pub(super) fn rms_norm(
        &self,
        stream: &Stream,
        x: &DeviceBuffer,
        weight: &DeviceBuffer,
        eps: f32,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        let width = weight.elements();
        let entry = RMS_NORM + of_rows(x)?;
        same(out.dtype(), Dtype::F16)?;
        let grid = grid(rows, width, MAX_THREADS)?;
        if grid.ctas.1 > 1 {
            return Err(Error::Width { width, most: MAX_THREADS * VECTOR, multiple: VECTOR });
        }
        let (x, weight) = (x.tensor(&[rows, width])?, f16(weight)?.tensor(&[width])?);
        let (out, width) = (out.tensor_mut(&[rows, width])?, width as i32);
        let args = [Arg::read(&x), Arg::read(&weight), Arg::value(&eps), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.0.launch(stream, entry, grid, &args) }?)
    }

    /// As [`Math::linear`](super::Math::linear), for up to [`FEW_ROWS`] rows. Buffers have a power of two of rows.
    pub(super) fn product(
        &self,
        stream: &Stream,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error> {
        let Matrix { values, outputs, inputs } = weight;
        let (outputs, inputs, rows) = (*outputs, *inputs, rows.next_power_of_two());
        let entry = PRODUCT + 2 * rows.min(FEW_ROWS).ilog2() as usize + of_rows(out)?;
        let warps = 4;
        let ctas = grid(outputs, inputs, MAX_THREADS)?.ctas.0.div_ceil(warps);
        let grid = Grid { ctas: (ctas, 1), threads: 32 * warps, smem: 0 };
        let (weight, x) = (f16(values)?.tensor(&[outputs, inputs])?, f16(x)?.tensor(&[rows, inputs])?);
        let out = out.tensor_mut(&[rows, outputs])?;
        let (outputs, inputs, accumulate) = (outputs as i32, inputs as i32, i32::from(accumulate));
        let args = [
            Arg::read(&weight),
            Arg::read(&x),
            Arg::value(&outputs),
            Arg::value(&inputs),
            Arg::value(&accumulate),
            Arg::write(&out),
        ];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.0.launch(stream, entry, grid, &args) }?)
    }

    pub(super) fn silu_mul(
        &self,
        stream: &Stream,
        gate_up: &DeviceBuffer,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        same(out.dtype(), Dtype::F16)?;
        let grid = grid(rows, width, 128)?;
        let (gate_up, out) = (f16(gate_up)?.tensor(&[rows, 2 * width])?, out.tensor_mut(&[rows, width])?);
        let width = width as i32;
        let args = [Arg::read(&gate_up), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.0.launch(stream, SILU_MUL, grid, &args) }?)
    }
}

/// A CTA for each row and each `threads` vectors of it.
fn grid(rows: usize, width: usize, threads: usize) -> Result<Grid, Error> {
    let most = i32::MAX as usize;
    if !width.is_multiple_of(VECTOR) || width == 0 || width > most || rows > most {
        return Err(Error::Width { width, most, multiple: VECTOR });
    }
    let vectors = width / VECTOR;
    let threads = vectors.next_multiple_of(32).min(threads);
    let ctas = (rows as u32, vectors.div_ceil(threads) as u32);
    Ok(Grid { ctas, threads: threads as u32, smem: 0 })
}

/// The place of the entry for rows of a buffer's type.
fn of_rows(buffer: &DeviceBuffer) -> Result<usize, Error> {
    if buffer.dtype() == Dtype::F32 { Ok(1) } else { f16(buffer).map(|_| 0) }
}

/// The buffer, if it is of f16.
pub(super) fn f16(buffer: &DeviceBuffer) -> Result<&DeviceBuffer, Error> {
    same(buffer.dtype(), Dtype::F16).map(|()| buffer)
}

fn same(have: Dtype, want: Dtype) -> Result<(), Error> {
    let (have_name, want_name) = (format!("elements of {have}"), want.to_string());
    if have == want { Ok(()) } else { Err(attn::Error::Elements { have: have_name, want: want_name }.into()) }
}

#[cfg(test)]
mod tests {
    use attn_kernels::{
        cache::CubinCache,
        compile::{Arch, nvrtc::Nvrtc},
        jit::obtain_from,
        splice::OpSource,
    };
    use attn_needs::{Need, has};

    use super::*;

    #[test]
    fn the_kernels_compile_for_every_architecture() {
        if !has(Need::Nvrtc, Nvrtc::find()) {
            return;
        }
        for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"] {
            let arch: Arch = arch.parse().expect("an architecture");
            let source = OpSource::custom(NAME, TEXT, arch).expect("the templates are sound");
            let ready = obtain_from(&CubinCache::off(), source).expect("it compiles");
            let log = &ready.compiled.log;
            assert!(ENTRIES.iter().all(|entry| log.contains(entry)), "{arch}: {log}");
            assert!(
                !log.contains("spill stores") || log.matches("0 bytes spill stores").count() == ENTRIES.len(),
                "{log}"
            );
        }
    }

    #[test]
    fn rows_are_covered_by_vectors() {
        let of = |rows, width, threads| grid(rows, width, threads).map(|grid| (grid.ctas, grid.threads));
        assert_eq!(of(3, 576, 1024).expect("72 vectors"), ((3, 1), 96));
        assert_eq!(of(3, 1536, 128).expect("192 vectors"), ((3, 2), 128));
        assert_eq!(of(1, 8200, 1024).expect("1025 vectors").0, (1, 2));
        assert!(matches!(of(1, 12, 128), Err(Error::Width { width: 12, .. })));
    }
}
