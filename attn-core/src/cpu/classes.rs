//! Checks tile classes: each class against the mask of every element of its tile.

use crate::batch::{Layout, logit_index, row_index};
use crate::expr::Variant;
use crate::lang::{LogitIndex, QueryTile, Tile, TileClass};
use crate::spec::Heads;

/// A tile whose class is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the derived class is {class:?} of {tile:?}, but query head {head} at position {qo_pos} {attends} to key {key}",
    head = .at.row.qo_head, qo_pos = .at.row.qo_pos, key = .at.kv_pos,
    attends = if *.class == TileClass::Skip { "attends" } else { "does not attend" }
)]
pub struct UnsoundTile {
    /// The tile.
    pub tile: Tile,
    /// Its class.
    pub class: TileClass,
    /// An element that contradicts the class.
    pub at: LogitIndex,
}

/// Checks the class of every tile of `tile_rows` PackGQA rows by `tile_keys` keys against the mask of each of its
/// elements.
///
/// For tests: it evaluates every element of every mask.
///
/// # Errors
///
/// The first tile whose class is wrong.
pub fn check_tile_classes(
    variant: &Variant,
    layout: &Layout,
    heads: Heads,
    tile_rows: usize,
    tile_keys: usize,
) -> Result<(), UnsoundTile> {
    let (tile_rows, tile_keys) = (tile_rows.max(1), tile_keys.max(1));
    for request in 0..layout.batch() {
        let (rows, kv_len) = (layout.qo_len(request) * heads.group() as usize, layout.kv_len(request));
        for first in (0..rows).step_by(tile_rows) {
            let rows = first..(first + tile_rows).min(rows);
            for begin in (0..kv_len).step_by(tile_keys) {
                let keys = begin..(begin + tile_keys).min(kv_len);
                for kv_head in 0..heads.kv as usize {
                    let at = |row| logit_index(layout, row_index(layout, heads, request, kv_head, row), begin);
                    check_tile(variant, heads.group() as i32, keys.len(), rows.clone().map(at))?;
                }
            }
        }
    }
    Ok(())
}

/// Checks one tile; `at` yields the first element of each of its rows.
fn check_tile(
    variant: &Variant,
    group: i32,
    keys: usize,
    at: impl Iterator<Item = LogitIndex> + Clone,
) -> Result<(), UnsoundTile> {
    let (Some(first), Some(last)) = (at.clone().next(), at.clone().last()) else { return Ok(()) };
    let tile = Tile {
        rows: QueryTile::of(first.row, last.row, group),
        kv_pos_min: first.kv_pos,
        kv_pos_max: first.kv_pos + keys as i32 - 1,
        kv_token_min: first.kv_token,
        kv_token_max: first.kv_token + keys as i32 - 1,
    };
    // a refined class proves at least what the class proves
    let class = variant.refined_tile_class(tile);
    let proven = match class {
        TileClass::Skip => false,
        TileClass::Full => true,
        TileClass::Partial => return Ok(()),
    };
    for at in at {
        let mut keep = vec![true; keys];
        variant.mask_tile(&mut keep, at);
        if let Some(i) = keep.iter().position(|keep| *keep != proven) {
            let (kv_pos, kv_token) = (at.kv_pos + i as i32, at.kv_token + i as i32);
            return Err(UnsoundTile { tile, class, at: LogitIndex { kv_pos, kv_token, ..at } });
        }
    }
    Ok(())
}
