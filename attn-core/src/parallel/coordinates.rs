//! Coordinates that are others on a rank than in one run: a variant that reads them is refused by name.

use super::ParallelError;
use crate::expr::{PartRead, Variant};

/// Coordinates that are others on a rank.
#[derive(Debug)]
pub struct Differs {
    /// Whether a read sees one.
    sees: fn(&PartRead) -> bool,
    /// What it is on a rank.
    on_a_rank: &'static str,
    /// The way out.
    way: &'static str,
}

/// Positions among the keys of a rank, which its `remap` turns into those of the sequence.
pub const POSITIONS_OF_SHARDS: Differs = Differs {
    sees: |of| matches!(of.read.coordinate, "qo_pos" | "kv_pos") && !of.remapped,
    on_a_rank: "counted over the keys of a rank",
    way: "write `remap(interleaved_positions(ranks=.., rank=.., interleave=.., of_query=[..]), ..)` around it; a \
        request of one query that sees all keys needs no mask",
};

/// What else is of the keys of a rank.
pub const KEYS_OF_SHARDS: Differs = Differs {
    sees: |of| of.read.coordinate == "kv_len" || of.read.coordinate == "kv_token" && !of.read.is_index,
    on_a_rank: "that of the keys of a rank",
    way: "give it as a parameter, or share out the heads",
};

/// What is of a chunk of a prompt, which runs as a request.
pub const CHUNKS: Differs = Differs {
    sees: |of| match of.read.coordinate {
        "batch" | "qo_row" | "qo_len" | "kv_len" | "kv_token" => true,
        "qo_token" => !of.read.is_index,
        _ => false,
    },
    on_a_rank: "that of a chunk of a prompt",
    way: "give it as a parameter of tokens, or share out the heads",
};

/// Heads, of which each rank has a share.
pub const HEADS: Differs = Differs {
    sees: |of| matches!(of.read.coordinate, "qo_head" | "kv_head") && !of.read.is_index,
    on_a_rank: "counted from 0 on each rank",
    way: "look it up in a parameter tensor of heads",
};

impl Differs {
    /// Refuses a variant that reads one of these.
    ///
    /// # Errors
    ///
    /// [`ParallelError::Coordinate`].
    pub fn check(&self, variant: &Variant) -> Result<(), ParallelError> {
        let &Differs { sees, on_a_rank, way } = self;
        match variant.coordinate_reads().into_iter().find(sees) {
            None => Ok(()),
            Some(PartRead { part, read, .. }) => {
                let (hook, coordinate) = (read.hook.method(), read.coordinate);
                Err(ParallelError::Coordinate { part, hook, coordinate, on_a_rank, way })
            }
        }
    }
}
