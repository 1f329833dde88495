//! Derived tile classes agree with the mask of each element.

use crate::TestError;
use attn::Variant;
use attn_core::cpu::check_tile_classes;

use super::{HEADS, samples, violated};

/// Compares the class of every tile of random batches with its elements.
///
/// # Errors
///
/// The first tile of a wrong class, through a `kv_range` that leaves out attended keys or through the analysis of the
/// mask.
pub fn tiles(variant: &Variant) -> Result<(), TestError> {
    for sample in samples(variant, 40) {
        let mut sample = sample?;
        let rows = 1 + sample.random.below(70) as usize;
        let keys = 1 + sample.random.below(130) as usize;
        check_tile_classes(&sample.variant, &sample.layout, HEADS, rows, keys)
            .map_err(|wrong| violated("tiles are not what their elements are", wrong.to_string()))?;
    }
    Ok(())
}
