//! The class of each tile, and what its elements say.

use attn_core::{
    expr::Variant,
    lang::{LogitIndex, QueryTile, RowIndex, Tile, TileClass},
};

use super::Tiles;

/// Tiles of one query head, row by row.
pub(super) struct Map {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) classes: Vec<TileClass>,
}

/// What the elements of the mask say.
#[derive(Default)]
pub(super) struct Truth {
    pub(super) empty: usize,
    pub(super) empty_found: usize,
    pub(super) full: usize,
    pub(super) full_found: usize,
    pub(super) unsound: usize,
}

impl Map {
    pub(super) fn new(variant: &Variant, args: &Tiles) -> Self {
        let (rows, columns) = (args.qo.div_ceil(args.tile.0) as usize, args.kv.div_ceil(args.tile.1) as usize);
        let listed = variant.has_kv_list();
        let class = |i: usize| match listed {
            true => TileClass::Partial,
            false => variant.tile_class(tile(args, (i / columns) as u32, (i % columns) as u32)),
        };
        Map { rows, columns, classes: (0..rows * columns).map(class).collect() }
    }

    /// Every element of every tile.
    pub(super) fn truth(&self, variant: &Variant, args: &Tiles) -> Truth {
        let mut truth = Truth::default();
        let mut keep = Vec::new();
        for (i, class) in self.classes.iter().enumerate() {
            let tile = tile(args, (i / self.columns) as u32, (i % self.columns) as u32);
            let keys = (tile.kv_pos_max - tile.kv_pos_min + 1) as usize;
            let (mut any, mut all) = (false, true);
            for qo_row in tile.qo_row_min..=tile.qo_row_max {
                keep.clear();
                keep.resize(keys, true);
                let at = LogitIndex {
                    row: row(args, qo_row),
                    kv_pos: tile.kv_pos_min,
                    kv_token: tile.kv_token_min,
                    kv_slot: 0,
                };
                variant.mask_tile(&mut keep, at);
                any |= keep.contains(&true);
                all &= !keep.contains(&false);
            }
            truth.empty += usize::from(!any);
            truth.full += usize::from(all);
            truth.empty_found += usize::from(!any && *class == TileClass::Skip);
            truth.full_found += usize::from(all && *class == TileClass::Full);
            truth.unsound += usize::from((any && *class == TileClass::Skip) || (!all && *class == TileClass::Full));
        }
        truth
    }
}

fn row(args: &Tiles, qo_row: i32) -> RowIndex {
    RowIndex {
        batch: 0,
        qo_row,
        qo_pos: qo_row + args.kv as i32 - args.qo as i32,
        qo_token: qo_row,
        qo_head: args.head as i32,
        kv_head: (args.head / (args.heads.0 / args.heads.1)) as i32,
        qo_len: args.qo as i32,
        kv_len: args.kv as i32,
    }
}

fn tile(args: &Tiles, i: u32, j: u32) -> Tile {
    let last = |i: u32, tile: u32, len: u32| ((i + 1) * tile).min(len) as i32 - 1;
    let rows = QueryTile::of(row(args, (i * args.tile.0) as i32), row(args, last(i, args.tile.0, args.qo)), 1);
    let (first_key, last_key) = ((j * args.tile.1) as i32, last(j, args.tile.1, args.kv));
    Tile {
        rows: QueryTile { qo_head_min: args.head as i32, qo_head_max: args.head as i32, ..rows },
        kv_pos_min: first_key,
        kv_pos_max: last_key,
        kv_token_min: first_key,
        kv_token_max: last_key,
    }
}
