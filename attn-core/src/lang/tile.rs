//! Tiles: rectangles of logits, which a kernel may skip or run without a mask.

use std::ops::Deref;

use super::RowIndex;

/// Query rows of one request that a kernel processes together. All bounds are inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the least and the greatest value of the coordinate of that name
pub struct QueryTile {
    /// Request within the batch.
    pub batch: i32,
    pub qo_row_min: i32,
    pub qo_row_max: i32,
    pub qo_pos_min: i32,
    pub qo_pos_max: i32,
    pub qo_token_min: i32,
    pub qo_token_max: i32,
    pub qo_head_min: i32,
    pub qo_head_max: i32,
    pub kv_head_min: i32,
    pub kv_head_max: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// A rectangle of logits of one request: a query tile against consecutive keys. Derefs to its [`QueryTile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tile {
    /// The query rows.
    pub rows: QueryTile,
    pub kv_pos_min: i32,
    pub kv_pos_max: i32,
    pub kv_token_min: i32,
    pub kv_token_max: i32,
}

impl QueryTile {
    /// The tile of the PackGQA rows `first` to `last` of one request and KV head. PackGQA rows run over the
    /// heads of a query, then over queries. `group` is query heads per KV head.
    #[must_use]
    pub fn of(first: RowIndex, last: RowIndex, group: i32) -> Self {
        // rows of several queries may include every head of the group
        let heads = match first.qo_row == last.qo_row {
            true => (first.qo_head, last.qo_head),
            false => (first.kv_head * group, last.kv_head * group + group - 1),
        };
        QueryTile {
            batch: first.batch,
            qo_row_min: first.qo_row,
            qo_row_max: last.qo_row,
            qo_pos_min: first.qo_pos,
            qo_pos_max: last.qo_pos,
            qo_token_min: first.qo_token,
            qo_token_max: last.qo_token,
            qo_head_min: heads.0,
            qo_head_max: heads.1,
            kv_head_min: first.kv_head,
            kv_head_max: last.kv_head,
            qo_len: first.qo_len,
            kv_len: first.kv_len,
        }
    }
}

impl Deref for Tile {
    type Target = QueryTile;
    fn deref(&self) -> &QueryTile {
        &self.rows
    }
}

/// A three-valued bool: the value of a mask over a whole tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Tristate {
    False,
    Unknown,
    True,
}

/// The class of a tile under a mask, as far as it is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileClass {
    /// No logit of the tile is attended: the tile is not loaded.
    Skip,
    /// Nothing is proven: the mask is evaluated for every logit.
    Partial,
    /// Every logit of the tile is attended: the mask is not evaluated.
    Full,
}

impl TileClass {
    /// The class under the conjunction of two masks.
    #[must_use]
    pub fn and(self, other: TileClass) -> TileClass {
        match (self, other) {
            (TileClass::Skip, _) | (_, TileClass::Skip) => TileClass::Skip,
            (TileClass::Full, TileClass::Full) => TileClass::Full,
            _ => TileClass::Partial,
        }
    }
    /// The class under the disjunction of two masks.
    #[must_use]
    pub fn or(self, other: TileClass) -> TileClass {
        match (self, other) {
            (TileClass::Full, _) | (_, TileClass::Full) => TileClass::Full,
            (TileClass::Skip, TileClass::Skip) => TileClass::Skip,
            _ => TileClass::Partial,
        }
    }
    /// The class under the negation of a mask.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // a class is no number
    pub fn not(self) -> TileClass {
        match self {
            TileClass::Skip => TileClass::Full,
            TileClass::Partial => TileClass::Partial,
            TileClass::Full => TileClass::Skip,
        }
    }
}

impl From<Tristate> for TileClass {
    fn from(attended: Tristate) -> Self {
        match attended {
            Tristate::False => TileClass::Skip,
            Tristate::Unknown => TileClass::Partial,
            Tristate::True => TileClass::Full,
        }
    }
}
