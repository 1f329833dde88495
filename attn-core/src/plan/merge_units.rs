//! Merge units: runs of up to [`MERGE_ROWS`] rows of a request, which no tile cuts and which are merged together.
//!
//! The rows of a request are cut into tiles of its part, and these into units. So units have numbers and rows in closed
//! form.

use super::MERGE_ROWS;

pub(crate) use device::CUDA;
pub(super) use device::count;

const _: () = assert!(device::ROWS == MERGE_ROWS);

/// The units of a request, for the host and for the planner kernel of cascades.
#[allow(unreachable_pub, dead_code)] // private to the plan; the kernel has more uses
#[attn_macros::device_mod(namespace = "lang::merge_units", include = "lang/int_fn.cuh")]
mod device {
    /// The most rows of a unit.
    pub const ROWS: u32 = 16;

    /// The units of a request of `rows` rows, which are cut into tiles of `tile_rows` rows.
    pub fn count(rows: u32, tile_rows: u32) -> u32 {
        rows / tile_rows * tile_rows.div_ceil(ROWS) + (rows % tile_rows).div_ceil(ROWS)
    }

    /// The units of a request that end no later than before a row.
    pub fn ended(row: u32, rows: u32, tile_rows: u32) -> u32 {
        if row >= rows {
            count(rows, tile_rows)
        } else {
            row / tile_rows * tile_rows.div_ceil(ROWS) + row % tile_rows / ROWS
        }
    }

    /// The first row of a unit; for the number of units no less than the rows.
    pub fn first_row(unit: u32, tile_rows: u32) -> u32 {
        let of_tile = tile_rows.div_ceil(ROWS);
        unit / of_tile * tile_rows + unit % of_tile * ROWS
    }
}

#[cfg(test)]
mod tests {
    use super::device::{count, ended, first_row};

    #[test]
    fn units_are_those_of_tiles_cut_one_by_one() {
        for (rows, tile_rows) in (0..100).flat_map(|rows| [1, 8, 16, 40, 64].map(|tile_rows| (rows, tile_rows))) {
            let tiles = (0..rows).step_by(tile_rows as usize).map(|tile| tile..rows.min(tile + tile_rows));
            let units: Vec<_> =
                tiles.flat_map(|tile| tile.clone().step_by(16).map(move |at| (at, tile.end.min(at + 16)))).collect();
            assert_eq!(count(rows, tile_rows) as usize, units.len(), "{rows} rows in tiles of {tile_rows}");
            for (unit, &(first, _)) in (0..).zip(&units) {
                assert_eq!(first_row(unit, tile_rows), first, "{rows} rows in tiles of {tile_rows}");
            }
            assert!(first_row(units.len() as u32, tile_rows) >= rows);
            for row in 0..=rows + 1 {
                let want = units.iter().filter(|&&(_, end)| end <= row).count();
                assert_eq!(
                    ended(row, rows, tile_rows) as usize,
                    want,
                    "{rows} rows in tiles of {tile_rows}, row {row}"
                );
            }
        }
    }
}
