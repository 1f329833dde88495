//! Where the partial states of tiles go.

use super::{
    MergeItem, PlanError, WorkList,
    rows::{RowTile, count_i32},
};
use crate::batch::Layout;

/// How many pieces a tile has, over all arms; then, where the next one goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) pieces: u32,
    /// The slot of the next piece, or -1: the tile has one item, which writes the output.
    pub(super) slot: i32,
    /// The tile's merge, or -1.
    pub(super) merge: i32,
}

/// Gives slots and a merge to every tile of several pieces, under a `union` to all; and the list room for its items.
pub(super) fn place(
    list: &mut WorkList,
    layout: &Layout,
    tiles: &[RowTile],
    places: &mut [Place],
    union: bool,
) -> Result<(), PlanError> {
    let mut slots = 0u64;
    let mut items = 0u64;
    for (tile, place) in tiles.iter().zip(places) {
        items += u64::from(place.pieces);
        (place.slot, place.merge) = (-1, -1);
        if place.pieces > 1 || union {
            let first = count_i32("partial states", slots)?;
            (place.slot, place.merge) = (first, list.merges.len() as i32);
            slots += u64::from(place.pieces);
            let request = tile.request as usize;
            list.merges.push(MergeItem {
                request: tile.request as i32,
                first_row: tile.first_row as i32,
                rows: tile.rows as i32,
                first,
                count: place.pieces as i32,
                qo_token: layout.qo_indptr()[request],
                qo_len: layout.qo_len(request) as i32,
                kv_len: layout.kv_len(request) as i32,
            });
        }
    }
    list.items.reserve(count_i32("work items", items)? as usize);
    list.slots = count_i32("partial states", slots)? as u32;
    Ok(())
}
