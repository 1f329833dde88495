//! Reads rows of tensors as f32, whatever their type and layout. Memory outside of the requested rows is never read.

use std::sync::LazyLock;

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::batch::{Layout, Pages};
use crate::dtype::Dtype;
use crate::lang::kv_format::{ErasedKvFormat, RowBytes};
use crate::lang::{F8E4M3, F8E5M2};
use crate::tensor::{Scale, TensorError, TensorRef};

#[derive(Clone, Copy)]
enum HostElements<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    E4m3(&'a [F8E4M3]),
    E5m2(&'a [F8E5M2]),
}

/// The value of every 8-bit code.
static E4M3: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|code| F8E4M3(code as u8).to_f32()));
static E5M2: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|code| F8E5M2(code as u8).to_f32()));

impl<'a> HostElements<'a> {
    fn new(tensor: &TensorRef<'a>) -> Option<Self> {
        Some(match tensor.dtype() {
            Dtype::F32 => HostElements::F32(tensor.as_host()?),
            Dtype::F16 => HostElements::F16(tensor.as_host()?),
            Dtype::Bf16 => HostElements::Bf16(tensor.as_host()?),
            Dtype::E4m3 => HostElements::E4m3(tensor.as_host()?),
            Dtype::E5m2 => HostElements::E5m2(tensor.as_host()?),
            Dtype::U8 => return None, // rows of a format are read as bytes
        })
    }

    fn read(&self, at: usize, row: &mut [f32]) {
        let range = at..at + row.len();
        match self {
            HostElements::F32(data) => row.copy_from_slice(&data[range]),
            HostElements::F16(data) => data[range].convert_to_f32_slice(row),
            // a loop over bits, which vectorises: a bf16 is the upper half of an f32
            HostElements::Bf16(data) => row.iter_mut().zip(&data[range]).for_each(|(to, from)| {
                *to = f32::from_bits(u32::from(from.to_bits()) << 16);
            }),
            HostElements::E4m3(data) => look_up(&E4M3, data[range].iter().map(|code| code.0), row),
            HostElements::E5m2(data) => look_up(&E5M2, data[range].iter().map(|code| code.0), row),
        }
    }
}

fn look_up(values: &[f32; 256], codes: impl Iterator<Item = u8>, row: &mut [f32]) {
    row.iter_mut().zip(codes).for_each(|(to, code)| *to = values[usize::from(code)]);
}

/// A tensor of (tokens, heads, head_dim).
#[derive(Clone, Copy)]
pub(super) struct TensorRows<'a> {
    data: HostElements<'a>,
    token: usize,
    head: usize,
}

impl<'a> TensorRows<'a> {
    /// `None` for device memory. The shape has been checked.
    pub(super) fn new(tensor: &TensorRef<'a>) -> Option<Self> {
        let strides = tensor.strides();
        Some(TensorRows { data: HostElements::new(tensor)?, token: strides[0] as usize, head: strides[1] as usize })
    }

    pub(super) fn read(&self, token: usize, head: usize, row: &mut [f32]) {
        self.data.read(token * self.token + head * self.head, row);
    }
}

/// Keys or values: ragged or in pages, with or without levels.
pub(super) struct KvRows<'a> {
    rows: StoredRows<'a>,
    /// Strides of pages, tokens or slots, and heads.
    strides: [usize; 3],
    kv_indptr: &'a [i32],
    pages: Option<&'a Pages>,
    /// The layout, if it has levels.
    levels: Option<&'a Layout>,
    /// One scale for each KV head; empty if all are 1.
    scales: Vec<f32>,
}

/// How rows are stored.
enum StoredRows<'a> {
    /// As numbers.
    Elements(HostElements<'a>),
    /// In a format.
    Packed(PackedRows<'a>),
}

struct PackedRows<'a> {
    format: &'a dyn ErasedKvFormat,
    bytes: RowBytes,
    codes: &'a [u8],
    side: &'a [u8],
    /// Strides of the side data, in bytes.
    side_strides: [usize; 3],
    /// The type to which elements are rounded before they are scaled.
    rounding: Option<Dtype>,
}

/// A tensor of keys or of values, how its rows are stored, and their scale; the names are for errors.
pub(super) struct Stored<'a, 's> {
    pub(super) names: [&'static str; 2],
    pub(super) tensor: TensorRef<'a>,
    /// The format of its rows, their elements, and their side data.
    pub(super) format: Option<(&'a dyn ErasedKvFormat, u32, Option<TensorRef<'a>>)>,
    pub(super) scale: &'s Scale<'s>,
}

impl<'a> KvRows<'a> {
    /// Rows of a tensor. Shapes have been checked; device memory is an error.
    pub(super) fn new(stored: &Stored<'a, '_>, layout: &'a Layout) -> Result<Self, TensorError> {
        let device = |tensor| TensorError::Memory { tensor, got: "device", want: "host" };
        let Stored { names: [name, scales], tensor, format, scale } = stored;
        let shape = tensor.shape();
        let rows = match *format {
            None => StoredRows::Elements(HostElements::new(tensor).ok_or_else(|| device(name))?),
            Some((format, dim, side)) => StoredRows::Packed(PackedRows {
                format,
                bytes: RowBytes::of(format, dim),
                codes: tensor.host_bytes().ok_or_else(|| device(name))?,
                side: side.map_or(Some(&[][..]), |side| side.host_bytes()).ok_or_else(|| device("side data"))?,
                side_strides: side.map_or([0; 3], |side| outer_strides(&side)),
                rounding: None,
            }),
        };
        let scales = match scale.is_one() {
            true => Vec::new(),
            false => scale.on_host(shape[shape.len() - 2]).ok_or_else(|| device(scales))?,
        };
        Ok(KvRows {
            rows,
            strides: outer_strides(tensor),
            kv_indptr: layout.kv_indptr(),
            pages: layout.pages(),
            levels: layout.has_levels().then_some(layout),
            scales,
        })
    }

    /// Rounds what a format decodes to a type, before it is scaled, as kernels do that read it without hooks.
    pub(super) fn round_decoded(&mut self, to: Dtype) {
        if let StoredRows::Packed(rows) = &mut self.rows {
            rows.rounding = Some(to);
        }
    }

    /// Reads the scaled row of a key; the key is below the request's `kv_len`.
    pub(super) fn read(&self, request: usize, key: usize, head: usize, row: &mut [f32]) {
        let segment = self.levels.and_then(|layout| layout.segment_at(request, key));
        let of_segment = segment.map(|segment| (segment.memory as usize, key - segment.kv_begin as usize));
        let (page, slot) = match (self.pages, of_segment) {
            (None, None) => (0, self.kv_indptr[request] as usize + key),
            (None, Some((first, key))) => (0, first + key),
            (Some(pages), None) => pages.locate(request, key),
            (Some(pages), Some((entry, key))) => pages.locate_from(entry, key),
        };
        let at = |strides: [usize; 3]| page * strides[0] + slot * strides[1] + head * strides[2];
        match &self.rows {
            StoredRows::Elements(data) => data.read(at(self.strides), row),
            StoredRows::Packed(rows) => {
                let codes = &rows.codes[at(self.strides)..][..rows.bytes.codes];
                let side = &rows.side[at(rows.side_strides)..][..rows.bytes.side];
                rows.format.decode_row(codes, side, head as i32, row);
                round_row(row, rows.rounding);
            }
        }
        if let Some(&scale) = self.scales.get(head) {
            row.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

/// Strides of pages (0 without pages), tokens or slots, and heads.
fn outer_strides(tensor: &TensorRef<'_>) -> [usize; 3] {
    let strides = tensor.strides();
    let back = |back: usize| strides.len().checked_sub(1 + back).map_or(0, |at| strides[at] as usize);
    [back(3), back(2), back(1)]
}

/// Rounds a row as kernels do.
pub(super) fn round_row(row: &mut [f32], to: Option<Dtype>) {
    match to {
        // saturates, as the kernels do; NaN stays NaN
        Some(Dtype::F16) => {
            let most = f16::MAX.to_f32();
            row.iter_mut().for_each(|x| *x = f16::from_f32(x.clamp(-most, most)).to_f32());
        }
        Some(Dtype::Bf16) => row.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
        Some(Dtype::F32 | Dtype::E4m3 | Dtype::E5m2 | Dtype::U8) | None => {}
    }
}
