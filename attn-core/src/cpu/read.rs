//! Rows of tensors as f32, whatever their type and layout. Only rows that are asked for are read.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::{
    batch::{Layout, Pages},
    dtype::Dtype,
    lang::KvIndex,
    tensor::TensorRef,
};

use super::problem::Sound;

#[derive(Clone, Copy)]
enum Data<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl<'a> Data<'a> {
    fn new(tensor: &TensorRef<'a>) -> Option<Self> {
        Some(match tensor.dtype() {
            Dtype::F32 => Data::F32(tensor.as_host()?),
            Dtype::F16 => Data::F16(tensor.as_host()?),
            Dtype::Bf16 => Data::Bf16(tensor.as_host()?),
        })
    }

    fn read(&self, at: usize, row: &mut [f32]) {
        let range = at..at + row.len();
        match self {
            Data::F32(data) => row.copy_from_slice(&data[range]),
            Data::F16(data) => data[range].convert_to_f32_slice(row),
            // a loop over bits, which vectorises: a bf16 is the upper half of an f32
            Data::Bf16(data) => row.iter_mut().zip(&data[range]).for_each(|(to, from)| {
                *to = f32::from_bits(u32::from(from.to_bits()) << 16);
            }),
        }
    }
}

/// A tensor of (tokens, heads, head_dim).
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    data: Data<'a>,
    token: usize,
    head: usize,
}

impl<'a> Rows<'a> {
    /// `None` for device memory. The shape is checked already.
    pub(super) fn new(tensor: &TensorRef<'a>) -> Option<Self> {
        let strides = tensor.strides();
        Some(Rows { data: Data::new(tensor)?, token: strides[0] as usize, head: strides[1] as usize })
    }

    pub(super) fn read(&self, token: usize, head: usize, row: &mut [f32]) {
        self.data.read(token * self.token + head * self.head, row);
    }
}

/// Keys or values, ragged or in pages.
#[derive(Clone, Copy)]
pub(super) struct Kv<'a> {
    rows: Rows<'a>,
    kv_indptr: &'a [i32],
    pages: Option<(&'a Pages, usize)>,
}

impl<'a> Kv<'a> {
    /// `None` for device memory. The shape is checked already.
    pub(super) fn new(tensor: &TensorRef<'a>, layout: &'a Layout) -> Option<Self> {
        let strides = tensor.strides();
        let (data, kv_indptr) = (Data::new(tensor)?, layout.kv_indptr());
        Some(match layout.pages() {
            None => Kv { rows: Rows::new(tensor)?, kv_indptr, pages: None },
            Some(pages) => {
                let rows = Rows { data, token: strides[1] as usize, head: strides[2] as usize };
                Kv { rows, kv_indptr, pages: Some((pages, strides[0] as usize)) }
            }
        })
    }

    /// Row of a key of a request; the key is below the request's `kv_len`.
    pub(super) fn read(&self, request: usize, key: usize, head: usize, row: &mut [f32]) {
        let at = match self.pages {
            None => (self.kv_indptr[request] as usize + key) * self.rows.token,
            Some((pages, stride)) => {
                let (page, slot) = pages.locate(request, key);
                page * stride + slot * self.rows.token
            }
        };
        self.rows.data.read(at + head * self.rows.head, row);
    }
}

impl Sound<'_> {
    /// A key row, after `key_transform`.
    pub(super) fn key(&self, request: usize, key: usize, kv_head: usize, row: &mut [f32]) {
        self.k.read(request, key, kv_head, row);
        self.variant.key_row(row, self.kv_index(request, key, kv_head));
    }

    /// A value row, after `value_transform`.
    pub(super) fn value(&self, request: usize, key: usize, kv_head: usize, row: &mut [f32]) {
        self.v.read(request, key, kv_head, row);
        self.variant.value_row(row, self.kv_index(request, key, kv_head));
    }

    /// The index words of a key.
    fn kv_index(&self, request: usize, key: usize, kv_head: usize) -> KvIndex {
        let kv_pos = key as i32;
        KvIndex {
            batch: request as i32,
            kv_pos,
            kv_token: self.layout.kv_indptr()[request] + kv_pos,
            kv_head: kv_head as i32,
            kv_len: self.layout.kv_len(request) as i32,
        }
    }

    /// A packed query row, after `query_transform`.
    pub(super) fn query(&self, request: usize, kv_head: usize, packed: usize, row: &mut [f32]) {
        let at = self.row_index(request, kv_head, packed);
        self.q.read(at.qo_token as usize, at.qo_head as usize, row);
        self.variant.query_row(row, at);
    }
}
