//! Tile classes and key ranges of a composition.

use super::refine::refined;
use super::tree::{Node, Variant};
use crate::lang::{ErasedVariant, Hook, QueryTile, RowIndex, Tile, TileClass};

/// The largest magnitude of a coordinate. Generated arithmetic relies on it not to overflow.
const MOST: i32 = (1 << 30) - 1;

/// A remapped position as the inner parts see it: clamped below 2^30 in magnitude, like every coordinate.
pub(super) fn clamp_position(pos: i32) -> i32 {
    pos.clamp(-MOST, MOST)
}

/// A tile as the inner parts of `remap` see it.
fn mapped(map: &dyn ErasedVariant, tile: &Tile) -> Tile {
    let mut to = map.remap_over(tile);
    for pos in [&mut to.rows.qo_pos_min, &mut to.rows.qo_pos_max, &mut to.kv_pos_min, &mut to.kv_pos_max] {
        *pos = clamp_position(*pos);
    }
    to
}

/// Every key.
const ALL_KEYS: (i32, i32) = (0, i32::MAX);

impl Variant {
    /// The class of a tile under the masks of all parts. It is sound: `Skip` and `Full` are proven, `Partial` is the
    /// default.
    #[must_use]
    pub fn tile_class(&self, tile: Tile) -> TileClass {
        self.nodes().iter().fold(TileClass::Full, |class, node| class.and(class_of(node, &tile)))
    }

    /// [`tile_class`](Self::tile_class), refined where it gives `Partial`. The planner and the CPU backend use it;
    /// kernels do not.
    #[must_use]
    pub fn refined_tile_class(&self, tile: Tile) -> TileClass {
        refined(tile, |tile| self.tile_class(tile))
    }

    /// The keys `begin..end` that rows of a tile may attend to, from the `kv_range` of the parts. The mask is false
    /// elsewhere.
    #[must_use]
    pub fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        self.nodes().iter().filter(|node| node.has(Hook::KvRange)).fold(ALL_KEYS, |all, node| {
            let one = match node {
                Node::Part(part) => part.kv_range(tile),
                // inner parts see other positions, so their `kv_range` does not apply to these keys
                Node::Remap { map, .. } if map.desc().has(Hook::KvRange) => map.kv_range(tile),
                Node::PerHead(heads) => {
                    let numbers = heads.numbers_of(tile.qo_head_min, tile.qo_head_max);
                    join_ranges(numbers.into_iter().filter_map(|i| heads.branches().get(i)), tile)
                }
                Node::Union(branches) => join_ranges(branches.iter(), tile),
                Node::Remap { .. } | Node::Or(_) | Node::Not(_) | Node::Except(_) => ALL_KEYS,
            };
            (all.0.max(one.0), all.1.min(one.1))
        })
    }

    /// The part that has a key list.
    fn kv_list(&self) -> Option<&dyn ErasedVariant> {
        self.nodes().iter().filter_map(Node::as_part).find(|part| part.desc().has(Hook::KvListLen))
    }

    /// Whether keys come from a list of blocks (`kv_list_len`).
    #[must_use]
    pub fn has_kv_list(&self) -> bool {
        self.kv_list().is_some()
    }

    /// Keys per block of the list, and the number of consecutive queries that share a list; each is at least 1. `None`
    /// without a list.
    #[must_use]
    pub fn kv_list_sizes(&self) -> Option<(i32, i32)> {
        self.kv_list().map(|part| part.kv_list_sizes()).map(|(block, queries)| (block.max(1), queries.max(1)))
    }

    /// Blocks in the list of a row; 0 without a list.
    #[must_use]
    pub fn kv_list_len(&self, at: RowIndex) -> i32 {
        self.kv_list().map_or(0, |part| part.kv_list_len(at).max(0))
    }

    /// The `n`-th block of the list of a row, as a block number: its first key is `block * keys per block`.
    #[must_use]
    pub fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        self.kv_list().map_or(n, |part| part.kv_list_block(at, n))
    }
}

fn class_of(node: &Node, tile: &Tile) -> TileClass {
    match node {
        Node::Part(part) => of_part(&**part, tile),
        Node::Or(masks) | Node::Union(masks) => {
            masks.iter().fold(TileClass::Skip, |class, mask| class.or(mask.tile_class(*tile)))
        }
        Node::Not(mask) | Node::Except(mask) => mask.tile_class(*tile).not(),
        Node::Remap { map, inner } => of_part(&**map, tile).and(inner.tile_class(mapped(&**map, tile))),
        Node::PerHead(_) if !node.has(Hook::LogitsMask) && !node.has(Hook::KvRange) => TileClass::Full,
        Node::PerHead(heads) => {
            let numbers = heads.numbers_of(tile.qo_head_min, tile.qo_head_max);
            let classes = numbers.into_iter().filter_map(|i| heads.branches().get(i)).map(|b| b.tile_class(*tile));
            classes.reduce(|a, b| if a == b { a } else { TileClass::Partial }).unwrap_or(TileClass::Partial)
        }
    }
}

fn of_part(part: &dyn ErasedVariant, tile: &Tile) -> TileClass {
    let desc = part.desc();
    let mask = match desc.has(Hook::LogitsMask) {
        true => part.mask_over(tile).into(),
        false => TileClass::Full,
    };
    if mask != TileClass::Skip && desc.has(Hook::KvRange) {
        let (begin, end) = part.kv_range(tile.rows);
        if tile.kv_pos_max < begin || tile.kv_pos_min >= end {
            return TileClass::Skip;
        }
    }
    mask
}

/// The smallest range that contains the ranges of all variants.
fn join_ranges<'v>(variants: impl Iterator<Item = &'v Variant>, tile: QueryTile) -> (i32, i32) {
    let ranges = variants.map(|v| v.kv_range(tile));
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or(ALL_KEYS)
}
