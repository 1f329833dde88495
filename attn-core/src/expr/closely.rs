//! A second look at tiles of which nothing is known at once: at their quarters, and without the edges that are empty.

use super::variant::Variant;
use crate::lang::{QueryTile, Tile, TileClass};

/// Consecutive queries, or keys, of a tile.
#[derive(Clone, Copy)]
enum Lines {
    Queries,
    Keys,
}

impl Variant {
    /// [`tile_class`](Self::tile_class), with a second look where it knows nothing: for those who plan, once a tile.
    ///
    /// An interval says little of a tile that lies across the end of a document, say: its quarters, or what is left of it without
    /// the rows and keys at its edges that are empty, may be known.
    #[must_use]
    pub fn tile_class_closely(&self, tile: Tile) -> TileClass {
        let whole = self.tile_class(tile);
        if whole != TileClass::Partial {
            return whole;
        }
        let halves = Lines::Queries.halves(tile);
        let mut classes =
            halves.into_iter().flat_map(|half| Lines::Keys.halves(half)).map(|part| self.tile_class(part));
        let first = classes.next().unwrap_or(TileClass::Partial);
        if first != TileClass::Partial && classes.all(|class| class == first) {
            return first;
        }
        if self.is_empty_but_for_edges(tile) { TileClass::Skip } else { TileClass::Partial }
    }

    /// Whether nothing is left when edges that are empty are cut off, one after the other.
    fn is_empty_but_for_edges(&self, tile: Tile) -> bool {
        let mut rest = tile;
        // what was cut from one edge may leave more to cut from another
        for _ in 0..2 {
            for (lines, front) in
                [(Lines::Queries, true), (Lines::Queries, false), (Lines::Keys, true), (Lines::Keys, false)]
            {
                let left = self.without_empty_edge(rest, lines, front);
                if left != rest && self.tile_class(left) == TileClass::Skip {
                    return true;
                }
                rest = left;
            }
        }
        false
    }

    /// The tile without the lines at one edge that are empty; a line is left at least.
    fn without_empty_edge(&self, tile: Tile, lines: Lines, front: bool) -> Tile {
        let count = lines.count(tile);
        let cut = |n: i32| {
            if front {
                lines.split(tile, n)
            } else {
                let (a, b) = lines.split(tile, count - n);
                (b, a)
            }
        };
        let is_empty = |n: i32| self.tile_class(cut(n).0) == TileClass::Skip;
        if count < 2 || !is_empty(1) {
            return tile;
        }
        // the most lines that are known to be empty, if more lines are never known better
        let (mut empty, mut not) = (1, count);
        while not - empty > 1 {
            let n = empty + (not - empty) / 2;
            if is_empty(n) { empty = n } else { not = n }
        }
        cut(empty).1
    }
}

impl Lines {
    /// How many there are; 1 where positions and tokens do not go with them, since they cannot be told apart then.
    fn count(self, tile: Tile) -> i32 {
        match self {
            Lines::Queries => {
                let QueryTile { qo_row_min: row, qo_pos_min: pos, qo_token_min: token, .. } = tile.rows;
                let more = tile.qo_row_max - row;
                let along = tile.qo_pos_max - pos == more && pos - row == tile.kv_len - tile.qo_len;
                if along && tile.qo_token_max - token == more { more + 1 } else { 1 }
            }
            Lines::Keys => {
                let more = tile.kv_pos_max - tile.kv_pos_min;
                if tile.kv_token_max - tile.kv_token_min == more { more + 1 } else { 1 }
            }
        }
    }

    /// The first `n` lines, and the others; `0 < n < count`.
    fn split(self, tile: Tile, n: i32) -> (Tile, Tile) {
        let (mut low, mut high) = (tile, tile);
        match self {
            Lines::Queries => {
                let QueryTile { qo_row_min: row, qo_pos_min: pos, qo_token_min: token, .. } = tile.rows;
                let last = &mut low.rows;
                (last.qo_row_max, last.qo_pos_max, last.qo_token_max) = (row + n - 1, pos + n - 1, token + n - 1);
                let first = &mut high.rows;
                (first.qo_row_min, first.qo_pos_min, first.qo_token_min) = (row + n, pos + n, token + n);
            }
            Lines::Keys => {
                let (pos, token) = (tile.kv_pos_min, tile.kv_token_min);
                (low.kv_pos_max, low.kv_token_max) = (pos + n - 1, token + n - 1);
                (high.kv_pos_min, high.kv_token_min) = (pos + n, token + n);
            }
        }
        (low, high)
    }

    /// Both halves, or the tile where there is but one line.
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
