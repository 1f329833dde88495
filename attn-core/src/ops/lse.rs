//! Converts log-sum-exp between natural logarithms, which attn-rs uses throughout, and base 2, which FlashInfer
//! returns.

use std::f32::consts::{LN_2, LOG2_E};

use super::{OpError, check, elements};
use crate::{dtype::Dtype, tensor::TensorMut};

/// Converts from natural logarithm to base 2.
#[must_use]
pub fn to_base_2(natural: f32) -> f32 {
    natural * LOG2_E
}

/// Converts from base 2 to natural logarithm.
#[must_use]
pub fn from_base_2(base_2: f32) -> f32 {
    base_2 * LN_2
}

/// Checks a tensor for [`scale`]: rank 1 or 2, f32.
///
/// # Errors
///
/// A tensor of another rank or type.
pub fn check(lse: &TensorMut<'_>) -> Result<(), OpError> {
    if lse.shape().len() != 1 {
        check::rank("lse", &lse.as_ref(), 2, "1 or 2: (tokens, heads)")?;
    }
    check::dtype("lse", lse.dtype(), &[Dtype::F32])?;
    check::disjoint("lse", lse)
}

/// Multiplies every element by `factor`, on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check()`].
pub fn scale(lse: &mut TensorMut<'_>, factor: f32) -> Result<(), OpError> {
    check(lse)?;
    let (mut extents, mut strides) = ([1; 2], [0; 2]);
    let skipped = 2 - lse.shape().len();
    extents[skipped..].copy_from_slice(lse.shape());
    strides[skipped..].copy_from_slice(lse.strides());
    let values = lse.as_host_mut::<f32>().ok_or_else(|| elements::on_device("lse"))?;
    for token in 0..extents[0] {
        for head in 0..extents[1] {
            values[elements::offset(&strides, &[token, head], 1)] *= factor;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bases_are_each_others_inverse() {
        for x in [-100.0f32, -1.5, 0.0, 3.25, 88.0] {
            assert!((from_base_2(to_base_2(x)) - x).abs() <= x.abs() * 2e-7);
            assert!((to_base_2(x).exp2() - x.exp()).abs() <= 2e-5 * x.exp());
        }
        assert_eq!(to_base_2(f32::NEG_INFINITY), f32::NEG_INFINITY);
        let mut data = [1.0, 9.0, 2.0, 9.0, f32::NEG_INFINITY, 9.0];
        let mut lse = TensorMut::host(&mut data, &[3, 1]).and_then(|t| t.with_strides(&[2, 1])).expect("fits");
        scale(&mut lse, LOG2_E).expect("f32");
        assert_eq!(data, [LOG2_E, 9.0, 2.0 * LOG2_E, 9.0, f32::NEG_INFINITY, 9.0]);
    }
}
