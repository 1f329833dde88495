//! Who knows the classes of tiles.

use std::ops::Range;

use crate::{
    expr::{Node, Variant},
    lang::{ErasedVariant, Hook, QueryTile, Tile, TileClass},
    spec::Heads,
};

/// Compositions of more masks are asked as a whole.
const MOST_PARTS: usize = 4;

/// Who knows the classes of tiles.
pub(super) enum Mask<'a> {
    /// Nobody masks anything.
    None,
    /// A few parts with masks, and nothing else: what [`Mask::Variant`] says, without asking what there is each time.
    Parts([Option<&'a dyn ErasedVariant>; MOST_PARTS], &'a Variant),
    /// A function, which is asked once.
    Function(&'a dyn Fn(Tile) -> TileClass),
    /// A variant, whose tiles have all heads.
    Variant(&'a Variant),
    /// A variant whose `kv_range` may look at the first head of its tile alone: it is asked for each KV head.
    ByHead { variant: &'a Variant, kv_heads: i32, group: i32 },
}

impl<'a> Mask<'a> {
    /// Of a variant; of one whose `kv_range` is asked, for each KV head.
    pub(super) fn of(variant: &'a Variant, heads: Heads) -> Self {
        if variant.has(Hook::KvRange) {
            return Mask::ByHead { variant, kv_heads: heads.kv as i32, group: heads.group() as i32 };
        }
        // what is derived from a mask is right for any range of heads
        let mut masks = variant.nodes().iter().filter(|node| node.has(Hook::LogitsMask));
        let parts = std::array::from_fn(|_| masks.next().map(Node::as_part));
        if masks.next().is_some() || parts.iter().any(|part| matches!(part, Some(None))) {
            return Mask::Variant(variant);
        }
        if parts[0].is_none() { Mask::None } else { Mask::Parts(parts.map(Option::flatten), variant) }
    }

    pub(super) fn class(&self, tile: &Tile) -> TileClass {
        match self {
            Mask::None => TileClass::Full,
            Mask::Parts(parts, _) => parts.iter().map_while(|part| *part).fold(TileClass::Full, |class, part| {
                if class == TileClass::Skip { class } else { class.and(part.mask_over(tile).into()) }
            }),
            Mask::Function(classify) => classify(*tile),
            Mask::Variant(variant) => variant.tile_class(*tile),
            Mask::ByHead { variant, .. } => self.by_head(*tile, |tile| variant.tile_class(tile)),
        }
    }

    pub(super) fn class_closely(&self, tile: Tile) -> TileClass {
        match self {
            Mask::None => TileClass::Full,
            Mask::Function(classify) => classify(tile),
            Mask::Parts(_, variant) | Mask::Variant(variant) => variant.tile_class_closely(tile),
            Mask::ByHead { variant, .. } => self.by_head(tile, |tile| variant.tile_class_closely(tile)),
        }
    }

    fn by_head(&self, tile: Tile, class: impl Fn(Tile) -> TileClass) -> TileClass {
        let &Mask::ByHead { kv_heads, group, .. } = self else { return class(tile) };
        let skips = |kv_head: i32| {
            let mut tile = tile;
            (tile.rows.kv_head_min, tile.rows.kv_head_max) = (kv_head, kv_head);
            (tile.rows.qo_head_min, tile.rows.qo_head_max) = (kv_head * group, (kv_head + 1) * group - 1);
            class(tile) == TileClass::Skip
        };
        if (0..kv_heads).all(skips) { TileClass::Skip } else { TileClass::Partial }
    }

    /// Whether one logit is not known to be masked, so that no tile with it is known to be empty. A function is not asked.
    pub(super) fn may_count(&self, rows: QueryTile, row: End, key: i32, first_key: i32) -> bool {
        if let Mask::Function(_) = self {
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
        let tile = keys_of(one, first_key, key..key + 1);
        let class = match self {
            // one logit has one head
            Mask::ByHead { variant, .. } => variant.tile_class(tile),
            mask => mask.class(&tile),
        };
        class != TileClass::Skip
    }
}

/// An end of a row of keys, or of a tile of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// Rows against keys of their request.
#[inline]
pub(super) fn keys_of(rows: QueryTile, first_key: i32, keys: Range<i32>) -> Tile {
    Tile {
        rows,
        kv_pos_min: keys.start,
        kv_pos_max: keys.end - 1,
        kv_token_min: first_key + keys.start,
        kv_token_max: first_key + keys.end - 1,
    }
}
