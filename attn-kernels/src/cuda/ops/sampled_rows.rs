//! When a cluster of CTAs shares a row.

use crate::cuda::Device;

/// Vocabularies up to this are rows of one CTA.
pub(super) const CTA_VOCAB: usize = 8192;

pub(super) fn has_clusters(device: &Device) -> bool {
    device.capability().0 >= 9
}
