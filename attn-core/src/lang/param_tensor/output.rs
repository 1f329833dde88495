//! Output tensors, which hooks store to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::len_error::TensorLenError;

/// An output tensor: f32 values that hooks store, for example a dump of logits or a maximum per head. It is row-major;
/// RANK is 1 to 4.
///
/// It is a handle: clones share the values. A hook writes `self.dump.store([i, j], x)` or `self.dump.atomic_max([i, j],
/// x)` (rank 1: `store(i, x)`); an index out of range stores nothing. Hooks run in any order and in parallel, and
/// skipped tiles store nothing. On the CPU the values are valid when a run returns; on a GPU `fetch_outputs` of the
/// plan copies them into the handle.
///
/// ```
/// # extern crate attn_core as attn;
/// use attn::lang::OutTensor2;
/// let dump = OutTensor2::filled(f32::NEG_INFINITY, [2, 3])?;
/// dump.store([1, 2], 0.5);
/// dump.store([2, 0], 9.0); // outside
/// assert_eq!(dump.to_vec()[5], 0.5);
/// # Ok::<(), attn::lang::param_tensor::TensorLenError>(())
/// ```
#[derive(Clone)]
pub struct OutTensor<const RANK: usize> {
    buffer: Option<OutBuffer>,
    shape: [i64; RANK],
}

/// The message on `self.out[i]`, which rustc shows where no index implements it. Rust text has the same.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an output tensor is written by hooks and not read: write `self.name.store([i, j], x)`, and read a \
               parameter tensor, `Tensor1` to `Tensor4`"
)]
pub trait ReadsOutput {}

impl<I: ReadsOutput, const RANK: usize> std::ops::Index<I> for OutTensor<RANK> {
    type Output = f32;
    fn index(&self, _: I) -> &f32 {
        &f32::NAN
    }
}

/// An output tensor of rank 1.
pub type OutTensor1 = OutTensor<1>;
/// An output tensor of rank 2.
pub type OutTensor2 = OutTensor<2>;
/// An output tensor of rank 3.
pub type OutTensor3 = OutTensor<3>;
/// An output tensor of rank 4.
pub type OutTensor4 = OutTensor<4>;

/// The values of an [`OutTensor`] of any rank, as a backend sees them.
#[derive(Clone)]
pub struct OutBuffer {
    values: Arc<OutValues>,
}

struct OutValues {
    id: u64,
    shape: Vec<i64>,
    /// The bits of the values.
    words: Vec<AtomicU32>,
}

impl<const RANK: usize> OutTensor<RANK> {
    /// Makes a tensor of zeros.
    ///
    /// # Errors
    /// The extents are too large.
    pub fn new(shape: [usize; RANK]) -> Result<Self, TensorLenError> {
        Self::filled(0.0, shape)
    }

    /// Makes a tensor filled with `value`; use negative infinity for maxima.
    ///
    /// # Errors
    /// The extents are too large.
    pub fn filled(value: f32, shape: [usize; RANK]) -> Result<Self, TensorLenError> {
        let fits = shape.iter().all(|&n| i32::try_from(n).is_ok());
        let len = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).filter(|_| fits);
        let len = len.ok_or_else(|| TensorLenError { len: 0, shape: shape.to_vec(), want: None })?;
        Ok(Self::of(vec![value; len], shape.map(|n| n as i64)))
    }

    /// `values` fill `shape`.
    pub(in crate::lang) fn of(values: Vec<f32>, shape: [i64; RANK]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let words = values.into_iter().map(|x| AtomicU32::new(x.to_bits())).collect();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        OutTensor {
            buffer: Some(OutBuffer { values: Arc::new(OutValues { id, shape: shape.to_vec(), words }) }),
            shape,
        }
    }

    /// An unset tensor.
    #[must_use]
    pub fn unset() -> Self {
        Self::default()
    }
    /// Whether it holds values.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.buffer.is_some()
    }
    /// The extents; zeros when unset.
    #[must_use]
    pub fn shape(&self) -> [i64; RANK] {
        self.shape
    }
    /// A copy of the values, row-major; empty when unset.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.buffer.as_ref().map_or_else(Vec::new, OutBuffer::to_vec)
    }
    /// The buffer that a backend sees.
    #[must_use]
    pub fn buffer(&self) -> Option<&OutBuffer> {
        self.buffer.as_ref()
    }

    fn word(&self, at: [i32; RANK]) -> Option<&AtomicU32> {
        let mut index = 0;
        for (i, n) in at.into_iter().map(i64::from).zip(self.shape) {
            if i < 0 || i >= n {
                return None;
            }
            index = index * n + i;
        }
        self.buffer.as_ref()?.values.words.get(index as usize)
    }

    fn store_at(&self, at: [i32; RANK], x: f32) {
        if let Some(word) = self.word(at) {
            word.store(x.to_bits(), Ordering::Relaxed);
        }
    }

    fn atomic_max_at(&self, at: [i32; RANK], x: f32) {
        if x.is_nan() {
            return;
        }
        if let Some(word) = self.word(at) {
            let larger = |bits| larger(f32::from_bits(bits), x).then_some(x.to_bits());
            // an error means that the stored value is not less
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, larger);
        }
    }
}

/// Whether `x` replaces `there`: -0 is less than 0, and a NaN stays.
fn larger(there: f32, x: f32) -> bool {
    !there.is_nan() && x.total_cmp(&there).is_gt()
}

/// Hooks index an output tensor like a parameter tensor: with a number or an array.
impl OutTensor<1> {
    /// Stores `x` at `i`, if that is in range.
    pub fn store(&self, i: i32, x: f32) {
        self.store_at([i], x);
    }
    /// Stores the maximum of `x` and the value at `i`, if `i` is in range. A NaN `x` stores nothing, and a stored NaN
    /// stays.
    pub fn atomic_max(&self, i: i32, x: f32) {
        self.atomic_max_at([i], x);
    }
}

macro_rules! by_indices {
    ($($rank:literal),*) => {$(
        impl OutTensor<$rank> {
            /// Stores `x` at an index, if that is in range.
            pub fn store(&self, at: [i32; $rank], x: f32) {
                self.store_at(at, x);
            }
            /// Stores the maximum of `x` and the value at an index, if that is in range. A NaN `x` stores nothing, and
            /// a stored NaN stays.
            pub fn atomic_max(&self, at: [i32; $rank], x: f32) {
                self.atomic_max_at(at, x);
            }
        }
    )*};
}
by_indices!(2, 3, 4);

impl OutBuffer {
    /// The unique id of the buffer within the program.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.values.id
    }
    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.values.shape
    }
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.words.len()
    }
    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A copy of the values.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.values.words.iter().map(|word| f32::from_bits(word.load(Ordering::Relaxed))).collect()
    }
    /// Replaces the values by those that a device computed.
    ///
    /// # Errors
    /// The number of values differs.
    pub fn write_back(&self, values: &[f32]) -> Result<(), TensorLenError> {
        if values.len() != self.len() {
            let shape = self.shape().iter().map(|&n| n as usize).collect();
            return Err(TensorLenError { len: values.len(), shape, want: Some(self.len()) });
        }
        self.values.words.iter().zip(values).for_each(|(word, x)| word.store(x.to_bits(), Ordering::Relaxed));
        Ok(())
    }
    /// Pointer to the values, valid while a handle lives. Others may store to them concurrently, atomically.
    #[must_use]
    pub fn as_ptr(&self) -> *const AtomicU32 {
        self.values.words.as_ptr()
    }
}

impl<const RANK: usize> Default for OutTensor<RANK> {
    fn default() -> Self {
        OutTensor { buffer: None, shape: [0; RANK] }
    }
}

/// Equal handles share their values, or both are unset.
impl<const RANK: usize> PartialEq for OutTensor<RANK> {
    fn eq(&self, other: &Self) -> bool {
        self.buffer.as_ref().map(OutBuffer::id) == other.buffer.as_ref().map(OutBuffer::id)
    }
}

impl<const RANK: usize> fmt::Debug for OutTensor<RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.buffer {
            Some(buffer) => buffer.fmt(f),
            None => f.write_str("unset"),
        }
    }
}

impl fmt::Debug for OutBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.to_vec(), self.shape())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_out_of_range_are_ignored() {
        let out = OutTensor2::new([2, 3]).expect("small");
        for (at, x) in
            [([0, 0], 1.0), ([1, 2], 2.0), ([2, 0], 3.0), ([0, 3], 4.0), ([-1, 1], 5.0), ([0, i32::MIN], 6.0)]
        {
            out.clone().store(at, x);
        }
        assert_eq!(out.to_vec(), [1.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
        OutTensor3::unset().store([0, 0, 0], 1.0);
        assert!(OutTensor1::new([usize::MAX]).is_err());
    }

    #[test]
    fn atomic_max_orders_signed_values() {
        let out = OutTensor1::filled(f32::NEG_INFINITY, [4]).expect("small");
        for x in [-3.0, -5.0, f32::NAN, -1.0, -2.0] {
            out.atomic_max(0, x);
        }
        for x in [-3.0, -0.0, 0.0, -1.0] {
            out.atomic_max(1, x);
        }
        for x in [2.0, -7.0, 1e-40, f32::INFINITY, 5.0] {
            out.atomic_max(2, x);
        }
        out.atomic_max(4, 1.0);
        assert_eq!(out.to_vec(), [-1.0, 0.0, f32::INFINITY, f32::NEG_INFINITY]);
        assert!(out.to_vec()[1].is_sign_positive());
    }

    #[test]
    fn device_values_are_written_back() {
        let out = OutTensor4::new([1, 2, 1, 2]).expect("small");
        let buffer = out.buffer().expect("set").clone();
        buffer.write_back(&[1.0, 2.0, 3.0, 4.0]).expect("four");
        assert_eq!((out.to_vec(), buffer.shape()), (vec![1.0, 2.0, 3.0, 4.0], [1, 2, 1, 2].as_slice()));
        assert_eq!(buffer.write_back(&[1.0]).expect_err("one").want, Some(4));
        assert_ne!(out, OutTensor4::new([1, 2, 1, 2]).expect("small"));
    }
}
