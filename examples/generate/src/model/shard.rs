//! The share of a rank in the weights of a model (tensor parallelism, Megatron-LM, arXiv 1909.08053): heads of
//! attention, and a part of the feed-forward network.

use attn::parallel::{Communicator, HeadParallel};

use super::{config::LlamaConfig, weights::Checkpoint};
use crate::Error;

/// A checkpoint of a rank: rows of the matrices that make queries, keys, values, gates and ups, and columns of those
/// that add to the residual. The residuals of all ranks add up to that of the model.
pub(super) struct Shard<'a> {
    of: &'a dyn Checkpoint,
    whole: LlamaConfig,
    /// The shape of the rank's model.
    pub(super) config: LlamaConfig,
    rank: usize,
}

impl<'a> Shard<'a> {
    /// The share of a rank of a communicator. Ranks share KV heads where there are more ranks.
    ///
    /// # Errors
    ///
    /// Heads, or elements of the feed-forward network, that do not divide among the ranks.
    pub(super) fn new(of: &'a dyn Checkpoint, whole: &LlamaConfig, communicator: &Communicator) -> Result<Self, Error> {
        let (rank, ranks) = (communicator.rank(), communicator.ranks());
        if !whole.ffn.is_multiple_of(ranks) {
            return Err(Error::Shares { ffn: whole.ffn, gpus: ranks });
        }
        let heads = HeadParallel::share(communicator, whole.heads).map_err(attn::Error::from)?;
        let config = LlamaConfig { heads, ffn: whole.ffn / ranks, ..*whole };
        Ok(Shard { of, whole: *whole, config, rank })
    }
}

impl Checkpoint for Shard<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (heads, whole) = (self.config.heads, &self.whole);
        let of_kv = self.rank * heads.qo as usize / whole.heads.group() as usize * heads.head_dim as usize;
        // the axis of the parts, its extent in the model, and where the part of the rank begins
        let (axis, extent, first) = match name.split('.').nth_back(1) {
            Some("attn_q") => (0, whole.q_width(), self.rank * self.config.q_width()),
            Some("attn_k" | "attn_v") => (0, whole.kv_width(), of_kv),
            Some("attn_output") => (1, whole.q_width(), self.rank * self.config.q_width()),
            Some("ffn_gate" | "ffn_up") => (0, whole.ffn, self.rank * self.config.ffn),
            Some("ffn_down") => (1, whole.ffn, self.rank * self.config.ffn),
            _ => return self.of.tensor(name, shape),
        };
        let mut of_model = shape.to_vec();
        of_model[axis] = extent;
        let tensor = self.of.tensor(name, &of_model)?;
        let (row, part) = (of_model[axis..].iter().product(), shape[axis..].iter().product::<usize>());
        let first = first * part / shape[axis];
        Ok(tensor.chunks(row).flat_map(|row| &row[first..first + part]).copied().collect())
    }

    fn has(&self, name: &str) -> bool {
        self.of.has(name)
    }

    fn check_unused(&self) -> Result<(), Error> {
        self.of.check_unused()
    }
}
