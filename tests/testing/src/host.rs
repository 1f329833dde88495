//! Elements of tensors, and scales, in host memory.

use half::{bf16, f16};

use attn::Dtype;
use attn_core::lang::{F8E4M3, F8E5M2};
use attn_core::tensor::{Element, Scale, TensorError, TensorMut, TensorRef};

use super::random::Random;

/// A tensor's elements in host memory.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Host {
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    F32(Vec<f32>),
    E4m3(Vec<F8E4M3>),
    E5m2(Vec<F8E5M2>),
    /// Rows of a KV format.
    U8(Vec<u8>),
}

/// A scale of keys or of values, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostScale {
    /// The scale of the tensor.
    pub all: f32,
    /// The scales of KV heads, if the case has them.
    pub heads: Option<Vec<f32>>,
}

impl HostScale {
    /// A scale `all` of the tensor, and random scales of `heads` heads from 0.5 to 1.5.
    pub(super) fn new(all: f32, heads: Option<u32>, mut random: Random) -> Self {
        let mut head = || 0.5 + random.below(1025) as f32 / 1024.0;
        HostScale { all, heads: heads.map(|heads| (0..heads).map(|_| head()).collect()) }
    }

    /// Elements that have one scale, as what they stand for.
    #[must_use]
    pub fn times(&self, elements: Vec<f32>) -> Vec<f32> {
        let scale = self.all * self.heads.as_ref().and_then(|heads| heads.first()).unwrap_or(&1.0);
        elements.into_iter().map(|x| x * scale).collect()
    }

    /// The scale, in host memory.
    pub(super) fn scale(&self) -> Result<Scale<'_>, TensorError> {
        let heads = self.heads.as_ref().map(|heads| TensorRef::host(heads, &[heads.len()]));
        Ok(Scale { all: self.all, heads: heads.transpose()? })
    }
}

/// Runs an expression on the vector of numbers inside a [`Host`], whatever their type, or another one on bytes.
macro_rules! on_host {
    ($host:expr, $data:ident => $run:expr, $bytes:ident => $on_bytes:expr) => {
        match $host {
            $crate::host::Host::U8($bytes) => $on_bytes,
            $crate::host::Host::F16($data) => $run,
            $crate::host::Host::Bf16($data) => $run,
            $crate::host::Host::F32($data) => $run,
            $crate::host::Host::E4m3($data) => $run,
            $crate::host::Host::E5m2($data) => $run,
        }
    };
}
pub(super) use on_host;

impl Host {
    pub(super) fn empty(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F16 => Host::F16(Vec::new()),
            Dtype::Bf16 => Host::Bf16(Vec::new()),
            Dtype::F32 => Host::F32(Vec::new()),
            Dtype::E4m3 => Host::E4m3(Vec::new()),
            Dtype::E5m2 => Host::E5m2(Vec::new()),
            Dtype::U8 => Host::U8(Vec::new()),
        }
    }

    /// `len` NaNs, or bytes 0xff.
    #[must_use]
    pub fn nan(dtype: Dtype, len: usize) -> Self {
        let mut host = Host::empty(dtype);
        host.pad(len);
        host
    }

    /// The elements with these bytes; those of an element that is not whole are left out.
    #[must_use]
    pub fn of_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        let len = bytes.len() / dtype.size();
        let mut host = Host::nan(dtype, len);
        host.bytes_mut().copy_from_slice(&bytes[..len * dtype.size()]);
        host
    }

    /// Values, each rounded to the type as [`Element`] does: fp8 saturates.
    #[must_use]
    pub fn new(dtype: Dtype, values: &[f32]) -> Self {
        let mut host = Host::empty(dtype);
        on_host!(
            &mut host,
            data => *data = values.iter().map(|&x| Element::from_f32(x)).collect(),
            bytes => *bytes = values.iter().map(|&x| x as u8).collect()
        );
        host
    }

    /// The elements as a contiguous tensor.
    ///
    /// # Errors
    ///
    /// Fewer elements than the shape has.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, TensorError> {
        TensorRef::of_bytes(self.dtype(), self.bytes(), shape)
    }

    /// The elements as a contiguous tensor to write to.
    ///
    /// # Errors
    ///
    /// Fewer elements than the shape has.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, TensorError> {
        TensorMut::of_bytes(self.dtype(), self.bytes_mut(), shape)
    }

    /// The elements as f32.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        on_host!(
            self,
            data => data.iter().map(|x| x.to_f32()).collect(),
            bytes => bytes.iter().map(|&x| x.into()).collect()
        )
    }

    /// The elements as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        on_host!(self, data => bytemuck::cast_slice(data), bytes => bytes)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        on_host!(self, data => bytemuck::cast_slice_mut(data), bytes => bytes)
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().len() / self.dtype().size()
    }

    /// Appends NaNs, or bytes 0xff.
    pub(super) fn pad(&mut self, more: usize) {
        on_host!(
            self,
            data => data.resize(data.len() + more, Element::from_f32(f32::NAN)),
            bytes => bytes.resize(bytes.len() + more, 0xff)
        );
    }

    /// Copies elements of the same type.
    pub(super) fn copy_row(&mut self, to: usize, from: &Host, at: usize, len: usize) {
        debug_assert_eq!(self.dtype(), from.dtype());
        let size = self.dtype().size();
        self.bytes_mut()[to * size..][..len * size].copy_from_slice(&from.bytes()[at * size..][..len * size]);
    }

    /// The elements from `begin` on as a strided tensor.
    pub(super) fn strided(&self, begin: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, TensorError> {
        let bytes = &self.bytes()[begin.min(self.len()) * self.dtype().size()..];
        TensorRef::of_bytes(self.dtype(), bytes, shape)?.with_strides(strides)
    }

    /// Keeps the first elements.
    pub(super) fn truncate(&mut self, len: usize) {
        on_host!(self, data => data.truncate(len), bytes => bytes.truncate(len));
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        match self {
            Host::F16(_) => Dtype::F16,
            Host::Bf16(_) => Dtype::Bf16,
            Host::F32(_) => Dtype::F32,
            Host::E4m3(_) => Dtype::E4m3,
            Host::E5m2(_) => Dtype::E5m2,
            Host::U8(_) => Dtype::U8,
        }
    }
}
