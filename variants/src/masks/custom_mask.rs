use attn::lang::{AttentionVariant, Bits, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

use crate::packed_bits::pack;

/// A mask of one's own: one bit for each query and key of each request.
///
/// Attends where bit `offset[batch] + qo_row * kv_len + kv_pos` is set. These are the packed masks of FlashInfer (arXiv
/// 2501.01005): bits are little-endian, and `offset` counts bits. The tile classifier knows nothing of the bits, so
/// most tiles are masked element by element; where a formula says the same, write the formula.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct CustomMask {
    /// Bits of all masks together.
    #[require(size >= 1)]
    pub size: i32,
    /// The masks of the requests, one after the other, each row-major.
    #[shape(size)]
    #[mutable]
    pub bits: Tensor1<Bits>,
    /// Index of the first bit of each request's mask.
    #[shape(batch)]
    #[mutable]
    pub offset: Tensor1<i32>,
}

#[attention_variant(name = "custom_mask")]
impl AttentionVariant for CustomMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.bits[self.offset[at.batch] + at.qo_row * at.kv_len + at.kv_pos]
    }
}

/// An error in the arrays of a [`CustomMask`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CustomMaskError {
    /// A matrix whose size is not that of its request.
    #[error("the mask of request {request} has {len} bools; {queries} queries and {keys} keys take {want}")]
    Len { request: usize, len: usize, queries: usize, keys: usize, want: usize },
    /// `mask_indptr` does not begin at 0, falls, or does not end where the bytes do.
    #[error("`mask_indptr` {what}")]
    Indptr { what: &'static str },
    /// More bits than an i32 can index.
    #[error("masks of {bytes} bytes; there may be at most 268435455")]
    TooMany { bytes: usize },
}

/// The mask of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestMask<'a> {
    /// Queries of the request.
    pub queries: usize,
    /// Keys of the request.
    pub keys: usize,
    /// Whether a query attends to a key: (queries, keys), row-major.
    pub bools: &'a [bool],
}

impl CustomMask {
    /// Packs a matrix of bools for each request. Each mask begins at a whole byte, as FlashInfer's do.
    ///
    /// # Errors
    ///
    /// [`CustomMaskError`] says which matrix has the wrong size.
    ///
    /// ```
    /// use attn_variants::{CustomMask, RequestMask};
    ///
    /// let lower = RequestMask { queries: 2, keys: 2, bools: &[true, false, true, true] };
    /// let mask = CustomMask::from_bools(&[lower, lower])?;
    /// assert_eq!((mask.size, mask.offset.as_slice()), (16, &[0, 8][..]));
    /// # Ok::<(), attn_variants::CustomMaskError>(())
    /// ```
    pub fn from_bools(requests: &[RequestMask<'_>]) -> Result<Self, CustomMaskError> {
        let (mut bytes, mut indptr) = (Vec::new(), vec![0]);
        for (request, &RequestMask { queries, keys, bools }) in requests.iter().enumerate() {
            let (len, want) = (bools.len(), queries.saturating_mul(keys));
            if len != want {
                return Err(CustomMaskError::Len { request, len, queries, keys, want });
            }
            pack(bools.iter().copied(), &mut bytes);
            indptr.push(i32::try_from(bytes.len()).map_err(|_| CustomMaskError::TooMany { bytes: bytes.len() })?);
        }
        Self::from_packed(&bytes, &indptr)
    }

    /// Takes FlashInfer's packed masks: little-endian bits, with each request's mask at a whole byte. `mask_indptr` has
    /// the first byte of each request, and one past the last.
    ///
    /// Whether a mask has bits for all queries and keys of its request is not checked: a bit past the last is read as
    /// the last.
    ///
    /// # Errors
    ///
    /// [`CustomMaskError`] says what is malformed.
    pub fn from_packed(bytes: &[u8], mask_indptr: &[i32]) -> Result<Self, CustomMaskError> {
        let wrong = |what| Err(CustomMaskError::Indptr { what });
        if mask_indptr.first() != Some(&0) {
            return wrong("does not begin with 0");
        }
        if mask_indptr.windows(2).any(|ends| ends[0] > ends[1]) {
            return wrong("falls");
        }
        if mask_indptr.last().and_then(|&last| usize::try_from(last).ok()) != Some(bytes.len()) {
            return wrong("does not end where the bytes do");
        }
        let size = bytes.len().max(1).checked_mul(8).and_then(|bits| i32::try_from(bits).ok());
        let size = size.ok_or(CustomMaskError::TooMany { bytes: bytes.len() })?;
        let bits: Vec<Bits> = bytes.iter().copied().chain(bytes.is_empty().then_some(0)).map(Bits).collect();
        let offset: Tensor1<i32> = mask_indptr[..mask_indptr.len() - 1].iter().map(|first| first * 8).collect();
        Ok(CustomMask { size, bits: bits.into(), offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_packed_row_by_row() {
        let bools = [true, false, true, true, true, false, false, true, true];
        let mask = CustomMask::from_bools(&[
            RequestMask { queries: 3, keys: 3, bools: &bools },
            RequestMask { queries: 0, keys: 5, bools: &[] },
            RequestMask { queries: 1, keys: 2, bools: &[false, true] },
        ]);
        let mask = mask.expect("they fit");
        assert_eq!((mask.size, mask.offset.as_slice()), (24, &[0, 16, 16][..]));
        for (i, want) in bools.iter().enumerate() {
            let mut at = crate::testing::at(0, i as i32 % 3);
            (at.row.qo_row, at.row.kv_len) = (i as i32 / 3, 3);
            assert_eq!(mask.logits_mask(at), *want, "{i}");
        }
        let mut at = crate::testing::at(0, 1);
        (at.row.batch, at.row.kv_len) = (2, 2);
        assert!(mask.logits_mask(at));
    }

    #[test]
    fn malformed_arrays_are_refused() {
        let error = CustomMask::from_bools(&[RequestMask { queries: 2, keys: 2, bools: &[true] }]).expect_err("one");
        assert_eq!(error.to_string(), "the mask of request 0 has 1 bools; 2 queries and 2 keys take 4");
        let indptr = |indptr: &[i32]| CustomMask::from_packed(&[1, 2], indptr).expect_err("malformed").to_string();
        assert_eq!(indptr(&[]), "`mask_indptr` does not begin with 0");
        assert_eq!(indptr(&[1, 2]), "`mask_indptr` does not begin with 0");
        assert_eq!(indptr(&[0, 2, 1]), "`mask_indptr` falls");
        assert_eq!(indptr(&[0, 1]), "`mask_indptr` does not end where the bytes do");
    }
}
