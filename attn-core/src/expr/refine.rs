//! Refined tile classes: the quarters of a `Partial` tile, and the tile without its empty edges.

use crate::lang::{QueryTile, Tile, TileClass};

/// A dimension of a tile.
#[derive(Clone, Copy)]
enum Axis {
    Queries,
    Keys,
}

/// The class of a tile by those of smaller tiles, where `class` gives `Partial` for the whole.
///
/// Intervals over the whole tile are coarse for a tile that crosses the end of a document. The class may be provable
/// for its quarters, or for the tile without the empty rows and keys at its edges.
pub(super) fn refined(tile: Tile, class: impl Fn(Tile) -> TileClass) -> TileClass {
    let whole = class(tile);
    if whole != TileClass::Partial {
        return whole;
    }
    let halves = Axis::Queries.halves(tile);
    let mut classes = halves.into_iter().flat_map(|half| Axis::Keys.halves(half)).map(&class);
    let first = classes.next().unwrap_or(TileClass::Partial);
    if first != TileClass::Partial && classes.all(|other| other == first) {
        return first;
    }
    if is_empty_but_for_edges(tile, &class) { TileClass::Skip } else { TileClass::Partial }
}

/// Whether no logit is left after the empty edges are cut off, one after the other.
fn is_empty_but_for_edges(tile: Tile, class: &impl Fn(Tile) -> TileClass) -> bool {
    let mut rest = tile;
    // a cut at one edge may allow another cut at the next
    for _ in 0..2 {
        for (axis, front) in [(Axis::Queries, true), (Axis::Queries, false), (Axis::Keys, true), (Axis::Keys, false)] {
            let left = without_empty_edge(rest, axis, front, class);
            if left != rest && class(left) == TileClass::Skip {
                return true;
            }
            rest = left;
        }
    }
    false
}

/// The tile without the empty rows or keys at one edge. At least one remains.
fn without_empty_edge(tile: Tile, axis: Axis, front: bool, class: &impl Fn(Tile) -> TileClass) -> Tile {
    let count = axis.count(tile);
    let cut = |n: i32| {
        if front {
            axis.split(tile, n)
        } else {
            let (a, b) = axis.split(tile, count - n);
            (b, a)
        }
    };
    let is_empty = |n: i32| class(cut(n).0) == TileClass::Skip;
    if count < 2 || !is_empty(1) {
        return tile;
    }
    // bisection: tile classes are monotone, so a longer edge is never proven empty where a shorter one is not
    let (mut empty, mut not) = (1, count);
    while not - empty > 1 {
        let n = empty + (not - empty) / 2;
        if is_empty(n) { empty = n } else { not = n }
    }
    cut(empty).1
}

impl Axis {
    /// The extent of the dimension. It is 1 where positions and tokens are not consecutive, since the tile cannot be
    /// split then.
    fn count(self, tile: Tile) -> i32 {
        match self {
            Axis::Queries => {
                let QueryTile { qo_row_min: row, qo_pos_min: pos, qo_token_min: token, .. } = tile.rows;
                let more = tile.qo_row_max - row;
                let along = tile.qo_pos_max - pos == more && pos - row == tile.kv_len - tile.qo_len;
                if along && tile.qo_token_max - token == more { more + 1 } else { 1 }
            }
            Axis::Keys => {
                let more = tile.kv_pos_max - tile.kv_pos_min;
                if tile.kv_token_max - tile.kv_token_min == more { more + 1 } else { 1 }
            }
        }
    }

    /// Splits the tile after `n` rows or keys; `0 < n < count`.
    fn split(self, tile: Tile, n: i32) -> (Tile, Tile) {
        let (mut low, mut high) = (tile, tile);
        match self {
            Axis::Queries => {
                let QueryTile { qo_row_min: row, qo_pos_min: pos, qo_token_min: token, .. } = tile.rows;
                let last = &mut low.rows;
                (last.qo_row_max, last.qo_pos_max, last.qo_token_max) = (row + n - 1, pos + n - 1, token + n - 1);
                let first = &mut high.rows;
                (first.qo_row_min, first.qo_pos_min, first.qo_token_min) = (row + n, pos + n, token + n);
            }
            Axis::Keys => {
                let (pos, token) = (tile.kv_pos_min, tile.kv_token_min);
                (low.kv_pos_max, low.kv_token_max) = (pos + n - 1, token + n - 1);
                (high.kv_pos_min, high.kv_token_min) = (pos + n, token + n);
            }
        }
        (low, high)
    }

    /// The two halves, or the tile itself where its extent is 1.
    fn halves(self, tile: Tile) -> Vec<Tile> {
        match self.count(tile) {
            count if count < 2 => vec![tile],
            count => {
                let (low, high) = self.split(tile, count - count / 2);
                vec![low, high]
            }
        }
    }
}
