//! The object-safe form of a variant, at tile granularity: what run-time composition runs on the CPU.

use std::fmt::Debug;

use super::{BindError, Dims, KvIndex, LogitIndex, ParamValues, RowIndex, RowState, Tile, TileClass, VariantDesc};
use super::params::ArgVisitor;

/// A variant whose type is forgotten. Every [`AttentionVariant`](super::AttentionVariant) that
/// `#[attention_variant]` was put on has this form.
///
/// A *tile row* is one query row against `logits.len()` consecutive keys, of which the first is `at`.
pub trait ErasedVariant: Debug + Send + Sync {
    /// Its descriptor.
    fn desc(&self) -> &'static VariantDesc;
    /// A copy that owns itself.
    fn clone_box(&self) -> Box<dyn ErasedVariant>;
    /// See [`VariantParams::to_values`](super::VariantParams::to_values).
    fn to_values(&self) -> ParamValues;
    /// See [`VariantParams::bind`](super::VariantParams::bind).
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// See [`VariantParams::visit_args`](super::VariantParams::visit_args).
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);

    /// `query_transform` of one row.
    fn query_row(&self, q: &mut [f32], at: RowIndex);
    /// `key_transform` of one row.
    fn key_row(&self, k: &mut [f32], at: KvIndex);
    /// `logits_transform` of a tile row.
    fn logits_tile(&self, logits: &mut [f32], at: LogitIndex);
    /// `keep[i] &= logits_mask` of a tile row.
    fn mask_tile(&self, keep: &mut [bool], at: LogitIndex);
    /// Turns logits into weights, `row_max` given.
    fn weight_tile(&self, logits: &mut [f32], row_max: f32, at: LogitIndex);
    /// `sink_logit`.
    fn sink_logit(&self, at: RowIndex) -> f32;
    /// `output_transform` of one row.
    fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex);
    /// `tile_class`.
    fn tile_class(&self, tile: Tile) -> TileClass;
}
