//! What is derived of whole tiles agrees with the mask of each of their elements.

use crate::Variant;
use crate::cpu::check_tile_classes;
use crate::testing::TestError;

use super::{HEADS, broken, samples};

/// Compares the class of every tile of random batches with its elements.
///
/// # Errors
///
/// The first tile that is taken for what it is not: by a `kv_range` that leaves attended keys out, or by the library.
pub fn tiles(variant: &Variant) -> Result<(), TestError> {
    for sample in samples(variant, 40) {
        let mut sample = sample?;
        let rows = 1 + sample.random.below(70) as usize;
        let keys = 1 + sample.random.below(130) as usize;
        check_tile_classes(&sample.variant, &sample.layout, HEADS, rows, keys)
            .map_err(|wrong| broken("tiles are not what their elements are", wrong.to_string()))?;
    }
    Ok(())
}
