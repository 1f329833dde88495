//! The trait that a user implements.

use super::{KvIndex, LogitIndex, Row, RowIndex, RowState, Tile, TileClass, VariantParams};

/// How weights become an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// `softmax(logits)`: a running maximum, weights `exp(logit - row_max)`, divided by their sum.
    Softmax,
    /// Weights of one's own that are homogeneous, `f(s, m) = exp(-m) f(s, 0)`, with a denominator of one's own
    /// (softmax-1, softpick). Not supported by a kernel yet: refused with an error.
    MaxScaled,
    /// Weights of one's own without a running maximum (`row_max` is 0): sigmoid, ReLU. Partial outputs add up.
    Plain {
        /// Whether the output is divided by the sum of the weights.
        divide: bool,
    },
}

/// An attention variant: a handful of hooks, each with a default that costs nothing.
///
/// Write the hooks that differ, in ordinary Rust, and put `#[attention_variant]` on the impl: the same source
/// then runs on the CPU, and as CUDA inside every kernel.
///
/// Semantics, once and for all:
/// - `logit` arrives scaled by `sm_scale`, in natural-log units.
/// - What `logits_transform` gives for a masked logit is ignored.
/// - A row without keys gives O = 0 and LSE = -inf; with a sink, LSE is the sink's logit.
/// - `sink_logit` enters the denominator once, after all partial states are merged.
/// - `output_transform` runs once a row, after the merge, on the normalised output.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait AttentionVariant: VariantParams + Clone + Send + Sync + 'static {
    /// How weights become an output. Anything but `Softmax` needs `weight`.
    const NORMALIZER: Normalizer = Normalizer::Softmax;
    /// Under [`Normalizer::MaxScaled`], where the running maximum starts.
    const MAX_FLOOR: f32 = f32::NEG_INFINITY;

    /// Rewrites a query row.
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let _ = (q, at);
    }
    /// Rewrites a key row.
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let _ = (k, at);
    }
    /// Rewrites a value row. Not supported by a kernel yet: refused with an error.
    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        let _ = (v, at);
    }
    /// Rewrites one logit.
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let _ = at;
        logit
    }
    /// Whether the query attends to the key.
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let _ = at;
        true
    }
    /// The weight of a logit. To be written when, and only when, `NORMALIZER` is not `Softmax`.
    fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let _ = at;
        (logit - row_max).exp()
    }
    /// Under [`Normalizer::MaxScaled`], what a logit adds to the denominator. Not supported by a kernel yet.
    fn denominator(&self, logit: f32, row_max: f32, weight: f32, at: LogitIndex) -> f32 {
        let _ = (logit, row_max, at);
        weight
    }
    /// The logit of a virtual key without a value; `-inf` for none.
    fn sink_logit(&self, at: RowIndex) -> f32 {
        let _ = at;
        f32::NEG_INFINITY
    }
    /// Rewrites the finished output row.
    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, at: RowIndex) {
        let _ = (o, state, at);
    }
    /// What is known of a whole tile under `logits_mask`. It must be sound: `Skip` only if the mask is false
    /// everywhere in the tile, `Full` only if it is true everywhere.
    fn tile_class(&self, tile: Tile) -> TileClass {
        let _ = tile;
        TileClass::Partial
    }
}
