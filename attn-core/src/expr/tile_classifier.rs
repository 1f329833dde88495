//! Classifies tiles (skip, partial, full) under a mask, for the planner.

use std::ops::Range;

use super::{Node, Variant};
use crate::lang::{ErasedVariant, Hook, QueryTile, Tile, TileClass};
use crate::spec::Heads;

/// Compositions of more masks than this are classified by [`Variant::tile_class`].
const MAX_PARTS: usize = 4;

/// Classifies tiles: skip, partial or full.
pub(crate) enum TileClassifier<'a> {
    /// No part has a mask: every tile is full.
    Unmasked,
    /// A few parts with masks and nothing else. The result is that of [`TileClassifier::Variant`], without walking the
    /// nodes each time.
    Parts([Option<&'a dyn ErasedVariant>; MAX_PARTS], &'a Variant),
    /// A function, called once a tile, also for refined classes.
    #[cfg(test)]
    Function(&'a dyn Fn(Tile) -> TileClass),
    /// A variant whose tile classes hold for any range of heads.
    Variant(&'a Variant),
    /// A variant whose `kv_range` may depend on the head: tiles are classified for each KV head.
    ByHead { variant: &'a Variant, kv_heads: i32, group: i32 },
}

impl<'a> TileClassifier<'a> {
    /// The classifier of a variant.
    pub(crate) fn of(variant: &'a Variant, heads: Heads) -> Self {
        if variant.has(Hook::KvRange) {
            return TileClassifier::ByHead { variant, kv_heads: heads.kv as i32, group: heads.group() as i32 };
        }
        // classes that are derived from a mask hold for any range of heads
        let mut masks = variant.nodes().iter().filter(|node| node.has(Hook::LogitsMask));
        let parts = std::array::from_fn(|_| masks.next().map(Node::as_part));
        if masks.next().is_some() || parts.iter().any(|part| matches!(part, Some(None))) {
            return TileClassifier::Variant(variant);
        }
        if parts[0].is_none() {
            TileClassifier::Unmasked
        } else {
            TileClassifier::Parts(parts.map(Option::flatten), variant)
        }
    }

    pub(crate) fn class(&self, tile: &Tile) -> TileClass {
        match self {
            TileClassifier::Unmasked => TileClass::Full,
            TileClassifier::Parts(parts, _) => {
                parts.iter().map_while(|part| *part).fold(TileClass::Full, |class, part| {
                    if class == TileClass::Skip { class } else { class.and(part.mask_over(tile).into()) }
                })
            }
            #[cfg(test)]
            TileClassifier::Function(classify) => classify(*tile),
            TileClassifier::Variant(variant) => variant.tile_class(*tile),
            TileClassifier::ByHead { variant, .. } => self.by_head(*tile, |tile| variant.tile_class(tile)),
        }
    }

    pub(crate) fn refined_class(&self, tile: Tile) -> TileClass {
        match self {
            TileClassifier::Unmasked => TileClass::Full,
            #[cfg(test)]
            TileClassifier::Function(classify) => classify(tile),
            TileClassifier::Parts(_, variant) | TileClassifier::Variant(variant) => variant.refined_tile_class(tile),
            TileClassifier::ByHead { variant, .. } => self.by_head(tile, |tile| variant.refined_tile_class(tile)),
        }
    }

    fn by_head(&self, tile: Tile, class: impl Fn(Tile) -> TileClass) -> TileClass {
        let &TileClassifier::ByHead { kv_heads, group, .. } = self else { return class(tile) };
        let skips = |kv_head: i32| {
            let mut tile = tile;
            (tile.rows.kv_head_min, tile.rows.kv_head_max) = (kv_head, kv_head);
            (tile.rows.qo_head_min, tile.rows.qo_head_max) = (kv_head * group, (kv_head + 1) * group - 1);
            class(tile) == TileClass::Skip
        };
        if (0..kv_heads).all(skips) { TileClass::Skip } else { TileClass::Partial }
    }

    /// Whether the logit of one row and one key may be attended: it is not proven masked. No tile that contains such a
    /// logit is proven skipped.
    pub(crate) fn may_attend(&self, rows: QueryTile, row: End, key: i32, first_key: i32) -> bool {
        #[cfg(test)]
        if let TileClassifier::Function(_) = self {
            return false;
        }
        let mut one = rows;
        match row {
            End::Front => {
                (one.qo_row_max, one.qo_pos_max, one.qo_token_max) = (one.qo_row_min, one.qo_pos_min, one.qo_token_min);
                (one.qo_head_max, one.kv_head_max) = (one.qo_head_min, one.kv_head_min);
            }
            End::Back => {
                (one.qo_row_min, one.qo_pos_min, one.qo_token_min) = (one.qo_row_max, one.qo_pos_max, one.qo_token_max);
                (one.qo_head_min, one.kv_head_min) = (one.qo_head_max, one.kv_head_max);
            }
        }
        let tile = tile_of(one, first_key, key..key + 1);
        let class = match self {
            // one logit has one head
            TileClassifier::ByHead { variant, .. } => variant.tile_class(tile),
            classifier => classifier.class(&tile),
        };
        class != TileClass::Skip
    }
}

/// An end of a range of keys, or of the rows of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// The tile of some rows and a range of keys of their request. `first_key` is the index of the request's first key
/// among packed keys.
#[inline]
pub(crate) fn tile_of(rows: QueryTile, first_key: i32, keys: Range<i32>) -> Tile {
    Tile {
        rows,
        kv_pos_min: keys.start,
        kv_pos_max: keys.end - 1,
        kv_token_min: first_key + keys.start,
        kv_token_max: first_key + keys.end - 1,
    }
}
