//! Reads rows of tensors as f32, whatever their type and layout. Memory outside of the requested rows is never read.

use std::sync::LazyLock;

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::{
    batch::{Layout, Pages},
    dtype::Dtype,
    lang::{F8E4M3, F8E5M2},
    tensor::{Scale, TensorError, TensorRef},
};

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
    rows: TensorRows<'a>,
    kv_indptr: &'a [i32],
    pages: Option<(&'a Pages, usize)>,
    /// The layout, if it has levels.
    levels: Option<&'a Layout>,
    /// One scale for each KV head; empty if all are 1.
    scales: Vec<f32>,
}

impl<'a> KvRows<'a> {
    /// A tensor and its scales; the names are for errors. Shapes have been checked; device memory is an error.
    pub(super) fn new(
        [name, scales]: [&'static str; 2],
        tensor: &TensorRef<'a>,
        scale: &Scale<'_>,
        layout: &'a Layout,
    ) -> Result<Self, TensorError> {
        let device = |tensor| TensorError::Memory { tensor, got: "device", want: "host" };
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let data = HostElements::new(tensor).ok_or_else(|| device(name))?;
        let [token, head] = [2, 1].map(|back| strides[strides.len() - 1 - back] as usize);
        let scales = match scale.is_one() {
            true => Vec::new(),
            false => scale.on_host(shape[shape.len() - 2]).ok_or_else(|| device(scales))?,
        };
        Ok(KvRows {
            rows: TensorRows { data, token, head },
            kv_indptr: layout.kv_indptr(),
            pages: layout.pages().map(|pages| (pages, strides[0] as usize)),
            levels: layout.has_levels().then_some(layout),
            scales,
        })
    }

    /// Reads the scaled row of a key; the key is below the request's `kv_len`.
    pub(super) fn read(&self, request: usize, key: usize, head: usize, row: &mut [f32]) {
        let segment = self.levels.and_then(|layout| layout.segment_at(request, key));
        let of_segment = segment.map(|segment| (segment.memory as usize, key - segment.kv_begin as usize));
        let at = match (self.pages, of_segment) {
            (None, None) => (self.kv_indptr[request] as usize + key) * self.rows.token,
            (None, Some((first, key))) => (first + key) * self.rows.token,
            (Some((pages, stride)), of_segment) => {
                let (page, slot) = match of_segment {
                    None => pages.locate(request, key),
                    Some((entry, key)) => pages.locate_from(entry, key),
                };
                page * stride + slot * self.rows.token
            }
        };
        self.rows.data.read(at + head * self.rows.head, row);
        if let Some(&scale) = self.scales.get(head) {
            row.iter_mut().for_each(|x| *x *= scale);
        }
    }
}
