//! Tiles: rectangles of logits that a kernel may skip, or run without a mask.

/// A rectangle of logits of one request. All bounds are inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Request within the batch.
    pub batch: i32,
    /// Smallest query position in the tile.
    pub qo_pos_min: i32,
    /// Largest query position in the tile.
    pub qo_pos_max: i32,
    /// Smallest key position in the tile.
    pub kv_pos_min: i32,
    /// Largest key position in the tile.
    pub kv_pos_max: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// What is proven of a tile under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileClass {
    /// No logit of the tile is attended: it is not even loaded.
    Skip,
    /// Nothing is proven: the mask is evaluated for every logit.
    Partial,
    /// Every logit of the tile is attended: the mask is not evaluated.
    Full,
}

impl TileClass {
    /// The class of a tile under both of two masks.
    #[must_use]
    pub fn and(self, other: TileClass) -> TileClass {
        match (self, other) {
            (TileClass::Skip, _) | (_, TileClass::Skip) => TileClass::Skip,
            (TileClass::Full, TileClass::Full) => TileClass::Full,
            _ => TileClass::Partial,
        }
    }
}
