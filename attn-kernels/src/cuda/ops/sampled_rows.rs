//! What launches of sampling and of verification share: parameters of rows, and when a cluster of CTAs shares a row.

use attn_core::ops::{Array, Number};
use attn_core::sampling::PerRow;
use attn_core::tensor::DeviceMemory;

use super::numbers;
use crate::cuda::{CudaError, Device};

/// Vocabularies up to this are rows of one CTA.
pub(super) const CTA_VOCAB: usize = 8192;

pub(super) fn has_clusters(device: &Device) -> bool {
    device.capability().0 >= 9
}

/// The address of a parameter of rows, or 0 and the value of all.
pub(super) fn per_row<T: Number>(name: &'static str, of: &PerRow<'_, T>) -> Result<(u64, T), CudaError> {
    match of {
        PerRow::All(all) => Ok((0, *all)),
        PerRow::Rows(rows) => Ok((numbers(name, rows)?, T::zeroed())),
    }
}

pub(super) fn owner<'a, T: Number>(of: &PerRow<'a, T>) -> Option<&'a dyn DeviceMemory> {
    of.rows().and_then(Array::owner)
}
