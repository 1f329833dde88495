//! Assigns rows of partial states and merges to tiles.

use super::error::count_i32;
use super::tile::{MergeUnit, QTile, TileRows};
use super::{MergeItem, PlanError, WorkList};
use crate::batch::Layout;

/// Assigns rows and merges in a flat list. The states of a tile are `tile_rows` rows apart, in the order of branches
/// and keys. Every tile of a union is merged, so that one kernel finalizes the rows of all branches.
pub(super) fn assign_flat(
    list: &mut WorkList,
    layout: &Layout,
    tiles: &mut [QTile],
    tile_rows: u32,
) -> Result<(), PlanError> {
    let branches = list.branches();
    let count = tiles.len() / branches;
    let (mut items, mut rows) = (0u64, 0u64);
    for first in 0..count {
        let of_branches = || (0..branches).map(|branch| first + branch * count);
        let states = of_branches().map(|index| u64::from(tiles[index].splits)).sum::<u64>();
        items += states;
        if states == 1 && branches == 1 {
            continue;
        }
        let merge = list.merges.len() as i32;
        list.push_merge(layout, tiles[first].rows, count_i32("rows of partial states", rows)?, states as i32);
        for index in of_branches() {
            let tile = &mut tiles[index];
            (tile.partial, tile.merge) = (rows as i32, merge);
            rows += u64::from(tile.splits) * u64::from(tile_rows);
        }
    }
    count_i32("work items", items)?;
    list.partial_rows = count_i32("rows of partial states", rows)? as u32;
    Ok(())
}

/// Assigns rows to every tile of a mixed list with a row of several states, and a merge to each unit of such a tile.
/// Tiles are in the order of keys.
pub(super) fn assign_mixed(
    list: &mut WorkList,
    layout: &Layout,
    tiles: &mut [QTile],
    units: &mut [MergeUnit],
) -> Result<(), PlanError> {
    let mut states = 0u64;
    for tile in &*tiles {
        states += u64::from(tile.splits) * tile.units().len() as u64;
        count_i32("parts of merges", states)?;
        units[tile.units()].iter_mut().for_each(|unit| unit.states += tile.splits as i32);
    }
    let mut rows = 0u64;
    for tile in &mut *tiles {
        if units[tile.units()].iter().any(|unit| unit.states > 1) {
            tile.partial = count_i32("rows of partial states", rows)?;
            rows += u64::from(tile.splits) * u64::from(tile.rows.rows);
            units[tile.units()].iter_mut().for_each(|unit| unit.merged = true);
        }
    }
    list.partial_rows = count_i32("rows of partial states", rows)? as u32;
    let mut first = 0;
    for unit in units.iter_mut().filter(|unit| unit.merged) {
        let &mut MergeUnit { request, first_row, rows, states, .. } = unit;
        list.push_merge(layout, TileRows { request, requests: 1, first_row, rows }, first, states);
        unit.states = first;
        first += states;
    }
    list.merge_parts.resize(first as usize, 0);
    for tile in tiles.iter().filter(|tile| tile.partial >= 0) {
        let mut row = tile.partial;
        for _ in 0..tile.splits {
            for unit in &mut units[tile.units()] {
                list.merge_parts[unit.states as usize] = row;
                unit.states += 1;
                row += unit.rows as i32;
            }
        }
    }
    Ok(())
}

impl WorkList {
    fn push_merge(&mut self, layout: &Layout, rows: TileRows, first: i32, count: i32) {
        let request = rows.request as usize;
        self.merges.push(MergeItem {
            request: rows.request as i32,
            first_row: rows.first_row as i32,
            rows: rows.rows as i32,
            first,
            count,
            qo_token: layout.qo_indptr()[request],
            qo_len: layout.qo_len(request) as i32,
            kv_len: layout.kv_len(request) as i32,
        });
    }
}
