//! Coordinates that are others on a rank than in one run: a variant that reads them is refused by name.

use attn_core::expr::PartRead;
use attn_core::parallel::ParallelError;

use crate::{Attention, Error};

/// Coordinates that are others on a rank.
pub(super) struct Differs {
    /// Whether a read sees one.
    sees: fn(&PartRead) -> bool,
    /// What it is on a rank.
    place: &'static str,
    /// The way out.
    way: &'static str,
}

/// Positions among the keys of a rank, which its `remap` turns into those of the sequence.
pub(super) const POSITIONS_OF_SHARDS: Differs = Differs {
    sees: |of| matches!(of.read.coordinate, "qo_pos" | "kv_pos") && !of.remapped,
    place: "counted over the keys of a rank",
    way: "write `remap(interleaved_positions(ranks=.., rank=.., interleave=.., of_query=[..]), ..)` around it; one query a \
    request that sees all keys needs no mask",
};

/// What else is of the keys of a rank.
pub(super) const KEYS_OF_SHARDS: Differs = Differs {
    sees: |of| of.read.coordinate == "kv_len" || of.read.coordinate == "kv_token" && !of.read.is_index,
    place: "that of the keys of a rank",
    way: "give it as a parameter, or share out the heads",
};

/// What is of a chunk of a prompt, which runs as a request.
pub(super) const CHUNKS: Differs = Differs {
    sees: |of| match of.read.coordinate {
        "batch" | "qo_row" | "qo_len" | "kv_len" | "kv_token" => true,
        "qo_token" => !of.read.is_index,
        _ => false,
    },
    place: "that of a chunk of a prompt",
    way: "give it as a parameter of tokens, or share out the heads",
};

/// Heads, of which each rank has a share.
pub(super) const HEADS: Differs = Differs {
    sees: |of| matches!(of.read.coordinate, "qo_head" | "kv_head") && !of.read.is_index,
    place: "counted from 0 on each rank",
    way: "look it up in a parameter tensor of heads",
};

/// Refuses a variant that reads what differs.
pub(super) fn check(attention: &Attention, differs: &[Differs]) -> Result<(), Error> {
    let reads = attention.variant().coordinate_reads();
    for &Differs { sees, place, way } in differs {
        if let Some(PartRead { part, read, .. }) = reads.iter().find(|of| sees(of)) {
            let (hook, coordinate) = (read.hook.method(), read.coordinate);
            return Err(ParallelError::Coordinate { part, hook, coordinate, place, way }.into());
        }
    }
    Ok(())
}
