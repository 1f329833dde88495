//! What it costs to read keys together, or apart.

/// Keys that some requests read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Requests that share the keys; 1 for the keys of a request alone.
    pub requests: usize,
    /// Queries of all of them.
    pub queries: usize,
    /// Keys.
    pub keys: usize,
}

/// Chooses the levels of a cascade: those of the least cost in all. Costs are in any unit.
///
/// It decides which levels a batch *has*. Whether they *run* as levels is decided again when the batch is planned, by
/// the measured costs of the kernels.
pub trait CascadeCost {
    /// The cost of one segment. A shared segment gives each of its requests one more partial state (O, LSE) to merge.
    fn cost(&self, segment: &Segment) -> u64;
}

impl<F: Fn(&Segment) -> u64> CascadeCost for F {
    fn cost(&self, segment: &Segment) -> u64 {
        self(segment)
    }
}

/// Counts the keys that are read: each tile of queries reads all keys of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// Queries of a tile; at least 1. A decode kernel with tiles of 16 rows and 4 query heads for each KV head has 4.
    pub tile_queries: usize,
    /// Cost of merging one more partial state of a request, in keys.
    pub state_keys: u64,
}

impl Default for ReadCost {
    /// Tiles of 16 queries; a partial state costs as much as 128 keys.
    fn default() -> Self {
        ReadCost { tile_queries: 16, state_keys: 128 }
    }
}

impl CascadeCost for ReadCost {
    fn cost(&self, segment: &Segment) -> u64 {
        let tiles = segment.queries.div_ceil(self.tile_queries.max(1)) as u64;
        let states = if segment.requests > 1 { segment.requests as u64 } else { 0 };
        let read = tiles.saturating_mul(segment.keys as u64);
        read.saturating_add(states.saturating_mul(self.state_keys))
    }
}
