//! Assigns rows of partial states to tiles, and merges to units of rows.

use super::{
    MixedList, MixedMerge,
    tile::{MergeUnit, MixedTile},
};
use crate::{batch::Layout, plan::PlanError, plan::count::count_i32};

/// Assigns rows of partial states to every tile with a row of several states, and a merge to each unit of such a tile.
/// Tiles are in the order of keys.
pub(super) fn assign_partial_rows(
    list: &mut MixedList,
    layout: &Layout,
    tiles: &mut [MixedTile],
    units: &[MergeUnit],
    counts: &mut Vec<i32>,
    merged: &mut Vec<bool>,
) -> Result<(), PlanError> {
    counts.clear();
    counts.resize(units.len(), 0);
    merged.clear();
    merged.resize(units.len(), false);
    let of_tile = |tile: &MixedTile| tile.unit as usize..(tile.unit + tile.units) as usize;
    let mut total = 0u64;
    for tile in &*tiles {
        total += u64::from(tile.splits) * u64::from(tile.units);
        count_i32("parts of merges", total)?;
        counts[of_tile(tile)].iter_mut().for_each(|count| *count += tile.splits as i32);
    }
    let mut rows = 0u64;
    for tile in &mut *tiles {
        if counts[of_tile(tile)].iter().any(|&count| count > 1) {
            tile.partial = count_i32("rows of partial states", rows)?;
            rows += u64::from(tile.splits) * u64::from(tile.rows.rows);
            merged[of_tile(tile)].fill(true);
        }
    }
    list.partial_rows = count_i32("rows of partial states", rows)? as u32;
    let mut first = 0;
    for (unit, (count, _)) in units.iter().zip(counts.iter_mut().zip(&*merged)).filter(|(_, (_, merged))| **merged) {
        let request = unit.request as usize;
        list.merges.push(MixedMerge {
            request: unit.request as i32,
            first_row: unit.first_row as i32,
            rows: unit.rows as i32,
            first,
            count: *count,
            qo_token: layout.qo_indptr()[request],
            qo_len: layout.qo_len(request) as i32,
            kv_len: layout.kv_len(request) as i32,
        });
        first += *count;
        *count = first - *count; // from here on the index of its next part
    }
    list.merge_parts.resize(first as usize, 0);
    for tile in tiles.iter_mut().filter(|tile| tile.partial >= 0) {
        let mut row = tile.partial;
        for _ in 0..tile.splits {
            for unit in of_tile(tile) {
                list.merge_parts[counts[unit] as usize] = row;
                counts[unit] += 1;
                row += units[unit].rows as i32;
            }
        }
    }
    Ok(())
}
