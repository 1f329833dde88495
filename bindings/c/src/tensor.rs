//! Tensors of the caller.

use std::{ffi::c_void, fmt::Display};

use attn::{Dtype, Kv, KvScales, KvSides, PageOrder, TensorError, TensorMut, TensorRef, ops::KvSidesMut};

use crate::{input::member, memory::Memory, status::Failure};

/// The greatest rank of a tensor.
pub const ATTN_MAX_RANK: usize = 5;

/// The type of the elements of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnDtype {
    /// IEEE half precision.
    F16 = 0,
    /// bfloat16.
    Bf16 = 1,
    /// IEEE single precision.
    F32 = 2,
    /// 8 bits: 4 of exponent, 3 of mantissa (OCP `e4m3fn`); of keys and values alone.
    E4m3 = 3,
    /// 8 bits: 5 of exponent, 2 of mantissa (OCP `e5m2`); of keys and values alone.
    E5m2 = 4,
    /// Bytes: keys and values in a KV format (`AttnSpec.kv_format`), and their side data.
    U8 = 5,
}

/// How keys and values lie in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnKvLayout {
    /// (tokens, KV heads, head dim) each, or pools of pages in the order (pages, slots, KV heads, head dim).
    Nhd = 0,
    /// Pools of pages in the order (pages, KV heads, slots, head dim).
    Hnd = 1,
    /// One pool in `k`, with keys and then values of each page: (pages, 2, slots, KV heads, head dim).
    FusedNhd = 2,
    /// As above, in the order (pages, 2, KV heads, slots, head dim).
    FusedHnd = 3,
    /// One tensor or pool in `k`, whose first elements are the values: the cache of multi-head latent attention.
    Latent = 4,
}

/// The layouts, by their numbers.
pub(crate) const LAYOUTS: [AttnKvLayout; 5] =
    [AttnKvLayout::Nhd, AttnKvLayout::Hnd, AttnKvLayout::FusedNhd, AttnKvLayout::FusedHnd, AttnKvLayout::Latent];

impl AttnKvLayout {
    /// The order of slots and heads within a page.
    pub(crate) fn page_order(self) -> PageOrder {
        match self {
            AttnKvLayout::Hnd | AttnKvLayout::FusedHnd => PageOrder::Hnd,
            _ => PageOrder::Nhd,
        }
    }

    /// Whether values have a tensor beside that of keys.
    fn has_values(self) -> bool {
        matches!(self, AttnKvLayout::Nhd | AttnKvLayout::Hnd)
    }

    /// Refuses a tensor of values that would be left out, since they are in that of keys.
    pub(crate) fn check_left_out(self, values: &AttnTensor, name: &str) -> Result<(), Failure> {
        if self.has_values() || values.data.is_null() {
            return Ok(());
        }
        let layout = self as u32;
        Err(Failure::tensor(format!(
            "{name} is given, and values are in the tensor of keys in kv_layout {layout}: leave it zero, or take a \
             layout with two tensors"
        )))
    }
}

/// Elements in memory of the engine's device: of the host where it is the CPU. One pool for all layers is a base
/// address a layer with the stride of a page.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnTensor {
    /// The first element. It is not written to where the tensor is an input.
    pub data: *mut c_void,
    /// An `AttnDtype`.
    pub dtype: u32,
    /// The number of dimensions.
    pub rank: u32,
    /// The lengths of the dimensions.
    pub shape: [i64; ATTN_MAX_RANK],
    /// Distances in elements between neighbours of each dimension; all zero for a tensor without gaps.
    pub strides: [i64; ATTN_MAX_RANK],
}

/// A tensor of the caller, whose numbers are known to be sound.
struct Checked {
    data: *mut c_void,
    dtype: Dtype,
    rank: usize,
    shape: [usize; ATTN_MAX_RANK],
    strides: [i64; ATTN_MAX_RANK],
}

impl Checked {
    fn dims(&self) -> (&[usize], &[i64]) {
        (&self.shape[..self.rank], &self.strides[..self.rank])
    }
}

pub(crate) fn dtype(number: u32, name: impl Display) -> Result<Dtype, Failure> {
    member(number, &[Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::E4m3, Dtype::E5m2, Dtype::U8], name)
}

// A run reads five tensors: nothing here allocates unless it fails.
impl AttnTensor {
    fn check(&self, memory: &Memory, name: &str) -> Result<Checked, Failure> {
        let (rank, dtype) = (self.rank as usize, dtype(self.dtype, format_args!("{name}.dtype"))?);
        if !(1..=ATTN_MAX_RANK).contains(&rank) {
            return Err(Failure::argument(format!("{name}.rank is {rank}, and ranks are 1 to {ATTN_MAX_RANK}")));
        }
        let (mut shape, mut strides) = ([0; ATTN_MAX_RANK], self.strides);
        for (to, &length) in shape.iter_mut().zip(&self.shape[..rank]) {
            *to = usize::try_from(length)
                .map_err(|_| Failure::argument(format!("{name}.shape has a length of {length}")))?;
        }
        let shape_of = &shape[..rank];
        if strides[..rank].iter().all(|&stride| stride == 0) {
            let mut next = Some(1i64);
            for (stride, &length) in strides[..rank].iter_mut().zip(shape_of).rev() {
                *stride = next.ok_or_else(|| Failure::from(TensorError::TooLarge { shape: shape_of.to_vec() }))?;
                next = i64::try_from(length.max(1)).ok().and_then(|length| stride.checked_mul(length));
            }
        }
        if let Some(stride) = strides[..rank].iter().find(|&&stride| stride < 0) {
            return Err(Failure::argument(format!("{name}.strides has {stride}, and strides are not negative")));
        }
        let is_empty = shape_of.contains(&0);
        if self.data.is_null() && !is_empty {
            return Err(Failure::argument(format!("{name}.data is null")));
        }
        if !(self.data as usize).is_multiple_of(dtype.size()) {
            let size = dtype.size();
            return Err(Failure::argument(format!("{name}.data is no multiple of {size}, the size of a {dtype}")));
        }
        if !is_empty {
            memory.check(self.data as u64, name)?;
        }
        Ok(Checked { data: self.data, dtype, rank, shape, strides })
    }

    /// The tensor to read.
    ///
    /// # Safety
    ///
    /// Its elements are in memory of this kind, and are not written while the result lives.
    pub(crate) unsafe fn read<'a>(&self, memory: &Memory, name: &str) -> Result<TensorRef<'a>, Failure> {
        let of = self.check(memory, name)?;
        let (shape, strides) = of.dims();
        if memory.is_host() {
            // SAFETY: the caller guarantees the elements; the address is aligned.
            return Ok(unsafe { TensorRef::host_raw(of.data.cast(), of.dtype, shape, strides) }?);
        }
        // SAFETY: the caller guarantees it.
        Ok(unsafe { TensorRef::device(of.data as u64, of.dtype, shape, strides) }?)
    }

    /// The tensor to write.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes the elements while the result lives; the conditions of [`AttnTensor::read`].
    pub(crate) unsafe fn write<'a>(&self, memory: &Memory, name: &str) -> Result<TensorMut<'a>, Failure> {
        let of = self.check(memory, name)?;
        let (shape, strides) = of.dims();
        if memory.is_host() {
            // SAFETY: as in `read`; nothing else has them.
            return Ok(unsafe { TensorMut::host_raw(of.data.cast(), of.dtype, shape, strides) }?);
        }
        // SAFETY: the caller guarantees it.
        Ok(unsafe { TensorMut::device(of.data as u64, of.dtype, shape, strides) }?)
    }
}

/// A factor, where 0 stands for 1.
pub(crate) fn or_one(factor: f32) -> f32 {
    if factor == 0.0 { 1.0 } else { factor }
}

/// Scales of stored elements; 0 stands for 1.
pub(crate) fn scales(k: f32, v: f32) -> KvScales<'static> {
    KvScales::of(or_one(k), or_one(v))
}

/// Keys and values in a layout, and their side data where its address is not null.
///
/// # Safety
///
/// The conditions of [`AttnTensor::read`], for all tensors.
pub(crate) unsafe fn keys_and_values<'a>(
    [k, v]: [&AttnTensor; 2],
    [k_side, v_side]: [&AttnTensor; 2],
    layout: AttnKvLayout,
    memory: &Memory,
) -> Result<Kv<'a>, Failure> {
    layout.check_left_out(v, "v")?;
    layout.check_left_out(v_side, "v_side")?;
    let side = |of: &AttnTensor, name| match of.data.is_null() {
        true => Ok(None),
        // SAFETY: the caller guarantees it.
        false => unsafe { of.read(memory, name) }.map(Some),
    };
    let (k_side, v_side) = (side(k_side, "k_side")?, side(v_side, "v_side")?);
    let sides = match (layout, k_side) {
        (AttnKvLayout::Hnd, _) => KvSides::paged_in(k_side, v_side, layout.page_order())?,
        (AttnKvLayout::FusedNhd | AttnKvLayout::FusedHnd, Some(pool)) => KvSides::fused(pool, layout.page_order())?,
        _ => KvSides::new(k_side, v_side),
    };
    // SAFETY: the caller guarantees it.
    let [k, v] =
        unsafe { [k.read(memory, "k")?, if layout.has_values() { v.read(memory, "v") } else { k.read(memory, "k") }?] };
    let kv = match layout {
        AttnKvLayout::Nhd => Kv::ragged(k, v),
        AttnKvLayout::Hnd => Kv::paged_in(k, v, layout.page_order())?,
        AttnKvLayout::FusedNhd | AttnKvLayout::FusedHnd => Kv::paged_fused(k, layout.page_order())?,
        AttnKvLayout::Latent => Kv::latent(k),
    };
    Ok(kv.with_sides(sides))
}

/// Side data to append to, where its address is not null.
///
/// # Safety
///
/// The conditions of [`AttnTensor::write`], for both tensors.
pub(crate) unsafe fn sides_to_write<'a>(
    k: &AttnTensor,
    v: &AttnTensor,
    layout: AttnKvLayout,
    memory: &Memory,
) -> Result<KvSidesMut<'a>, Failure> {
    layout.check_left_out(v, "v_side")?;
    let side = |of: &AttnTensor, name| match of.data.is_null() {
        true => Ok(None),
        // SAFETY: the caller guarantees it.
        false => unsafe { of.write(memory, name) }.map(Some),
    };
    let (k, v) = (side(k, "k_side")?, side(v, "v_side")?);
    Ok(match (layout, k) {
        (AttnKvLayout::FusedNhd | AttnKvLayout::FusedHnd, Some(pool)) => KvSidesMut::fused(pool, layout.page_order())?,
        (_, k) => KvSidesMut::paged_in(k, v, layout.page_order())?,
    })
}
