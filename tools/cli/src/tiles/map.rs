//! The class of each tile, and counts of empty and full tiles from every element of the mask.

use attn_core::expr::Variant;
use attn_core::lang::{LogitIndex, QueryTile, RowIndex, Tile, TileClass};

/// One request, and the query head whose tiles are classified.
pub(super) struct Shape {
    /// Queries of the request.
    pub(super) qo: u32,
    /// Keys of the request.
    pub(super) kv: u32,
    /// Queries and keys of a tile.
    pub(super) tile: (u32, u32),
    /// Query heads and KV heads.
    pub(super) heads: (u32, u32),
    /// The query head.
    pub(super) head: u32,
}

/// The classes of one query head's tiles, row by row.
pub(super) struct TileMap {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) classes: Vec<TileClass>,
}

/// Counts of tiles, from every element of the mask.
#[derive(Default)]
pub(super) struct MaskTruth {
    /// Tiles in which no element is attended.
    pub(super) empty: usize,
    /// Empty tiles that are classified as skipped.
    pub(super) empty_found: usize,
    /// Tiles in which every element is attended.
    pub(super) full: usize,
    /// Full tiles that are classified as full.
    pub(super) full_found: usize,
    /// Tiles whose class contradicts their elements.
    pub(super) unsound: usize,
}

impl TileMap {
    /// Classifies every tile. The tiles of a list of keys are partial.
    pub(super) fn new(variant: &Variant, shape: &Shape) -> Self {
        let (rows, columns) = (shape.qo.div_ceil(shape.tile.0) as usize, shape.kv.div_ceil(shape.tile.1) as usize);
        let listed = variant.has_kv_list();
        let class = |i: usize| match listed {
            true => TileClass::Partial,
            false => variant.tile_class(tile(shape, (i / columns) as u32, (i % columns) as u32)),
        };
        TileMap { rows, columns, classes: (0..rows * columns).map(class).collect() }
    }

    /// Evaluates every element of every tile.
    pub(super) fn truth(&self, variant: &Variant, shape: &Shape) -> MaskTruth {
        let mut truth = MaskTruth::default();
        let mut keep = Vec::new();
        for (i, class) in self.classes.iter().enumerate() {
            let tile = tile(shape, (i / self.columns) as u32, (i % self.columns) as u32);
            let keys = (tile.kv_pos_max - tile.kv_pos_min + 1) as usize;
            let (mut any, mut all) = (false, true);
            for qo_row in tile.qo_row_min..=tile.qo_row_max {
                keep.clear();
                keep.resize(keys, true);
                let at = LogitIndex {
                    row: row(shape, qo_row),
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

fn row(shape: &Shape, qo_row: i32) -> RowIndex {
    RowIndex {
        batch: 0,
        qo_row,
        qo_pos: qo_row + shape.kv as i32 - shape.qo as i32,
        qo_token: qo_row,
        qo_head: shape.head as i32,
        kv_head: (shape.head / (shape.heads.0 / shape.heads.1)) as i32,
        qo_len: shape.qo as i32,
        kv_len: shape.kv as i32,
    }
}

fn tile(shape: &Shape, i: u32, j: u32) -> Tile {
    let last = |i: u32, tile: u32, len: u32| ((i + 1) * tile).min(len) as i32 - 1;
    let rows = QueryTile::of(row(shape, (i * shape.tile.0) as i32), row(shape, last(i, shape.tile.0, shape.qo)), 1);
    let (first_key, last_key) = ((j * shape.tile.1) as i32, last(j, shape.tile.1, shape.kv));
    Tile {
        rows: QueryTile { qo_head_min: shape.head as i32, qo_head_max: shape.head as i32, ..rows },
        kv_pos_min: first_key,
        kv_pos_max: last_key,
        kv_token_min: first_key,
        kv_token_max: last_key,
    }
}
