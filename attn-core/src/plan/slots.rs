//! Assigns slots and merges to tiles whose partial states are merged.

use super::{MergeItem, PlanError, WorkList, count::count_i32, q_tiles::QTile};
use crate::batch::Layout;

/// The splits of a tile over all branches, and the slots of their partial states.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TileSlots {
    pub(super) splits: u32,
    /// Slot of the next split, or -1 if the tile has one item, which writes the output.
    pub(super) next_slot: i32,
    /// Index of the tile's merge, or -1.
    pub(super) merge: i32,
}

/// Assigns slots and a merge to every tile with several splits (under a `union` to every tile), and reserves memory for
/// the items.
pub(super) fn assign_slots(
    list: &mut WorkList,
    layout: &Layout,
    tiles: &[QTile],
    tile_slots: &mut [TileSlots],
    union: bool,
) -> Result<(), PlanError> {
    let mut slot_count = 0u64;
    let mut items = 0u64;
    for (tile, slots) in tiles.iter().zip(tile_slots) {
        items += u64::from(slots.splits);
        (slots.next_slot, slots.merge) = (-1, -1);
        if slots.splits > 1 || union {
            let first = count_i32("partial states", slot_count)?;
            (slots.next_slot, slots.merge) = (first, list.merges.len() as i32);
            slot_count += u64::from(slots.splits);
            let request = tile.request as usize;
            list.merges.push(MergeItem {
                request: tile.request as i32,
                first_row: tile.first_row as i32,
                rows: tile.rows as i32,
                first,
                count: slots.splits as i32,
                qo_token: layout.qo_indptr()[request],
                qo_len: layout.qo_len(request) as i32,
                kv_len: layout.kv_len(request) as i32,
            });
        }
    }
    list.items.reserve(count_i32("work items", items)? as usize);
    list.slots = count_i32("partial states", slot_count)? as u32;
    Ok(())
}
