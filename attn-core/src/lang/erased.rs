//! The object-safe form of a variant, at tile granularity: what run-time composition runs on the CPU.

use std::fmt;

use super::params::{ArgVisitor, ShapeProblem};
use super::{
    AttentionVariant, BindError, Dims, KvIndex, LogitIndex, Normalizer, ParamError, ParamValues, QueryTile, RowIndex,
    RowState, Tile, Tri, VariantDesc, VariantParams,
};

/// A variant with a descriptor: `#[attention_variant]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    label = "this is no variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait Described: AttentionVariant {
    /// The descriptor: one for the program, so that its address is the variant's identity.
    fn desc() -> &'static VariantDesc;
    /// `logits_mask` over a whole tile, derived from its source: sound, and often exact.
    fn mask_over(&self, tile: &Tile) -> Tri {
        let _ = tile;
        Tri::Unknown
    }
    /// The tile as hooks inside of `remap(self, ..)` see it, derived from `remap_qo_pos` and `remap_kv_pos`.
    fn remap_over(&self, tile: &Tile) -> Tile {
        *tile
    }
}

/// A variant whose type is forgotten. Every [`AttentionVariant`] that
/// `#[attention_variant]` was put on has this form.
///
/// A *tile row* is one query row against `logits.len()` consecutive keys, of which the first is `at`. Its loops are
/// monomorphised: a virtual call is paid per tile row, never per logit.
pub trait ErasedVariant: Send + Sync {
    /// Its descriptor.
    fn desc(&self) -> &'static VariantDesc;
    /// A copy that owns itself.
    fn clone_box(&self) -> Box<dyn ErasedVariant>;
    /// See [`VariantParams::set_values`]; after an error nothing has changed.
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError>;
    /// See [`VariantParams::to_values`].
    fn to_values(&self) -> ParamValues;
    /// See [`VariantParams::bind`].
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError>;
    /// See [`VariantParams::shape`].
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem>;
    /// See [`VariantParams::visit_args`].
    fn visit_args(&self, visitor: &mut dyn ArgVisitor);

    /// `NORMALIZER`.
    fn normalizer(&self) -> Normalizer;
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
    /// `value_transform` of one row.
    fn value_row(&self, v: &mut [f32], at: KvIndex);
    /// `denominator` of a tile row: `denominators` come in as logits, `weights` are what [`Self::weight_tile`] made of these.
    fn denominator_tile(&self, denominators: &mut [f32], weights: &[f32], row_max: f32, at: LogitIndex);
    /// `MAX_FLOOR`.
    fn max_floor(&self) -> f32;
    /// `sink_logit`.
    fn sink_logit(&self, at: RowIndex) -> f32;
    /// `output_transform` of one row.
    fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex);
    /// See [`Described::mask_over`].
    fn mask_over(&self, tile: &Tile) -> Tri;
    /// See [`Described::remap_over`].
    fn remap_over(&self, tile: &Tile) -> Tile;
    /// `kv_range`.
    fn kv_range(&self, tile: QueryTile) -> (i32, i32);
    /// `kv_list_len`.
    fn kv_list_len(&self, at: RowIndex) -> i32;
    /// `kv_list_block`.
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32;
    /// `kv_list_block_size` and `kv_list_queries`.
    fn kv_list_sizes(&self) -> (i32, i32);
    /// `remap_qo_pos`.
    fn remap_qo_pos(&self, at: RowIndex) -> i32;
    /// `remap_kv_pos`.
    fn remap_kv_pos(&self, at: KvIndex) -> i32;
}

impl<V: Described> ErasedVariant for V {
    fn desc(&self) -> &'static VariantDesc {
        V::desc()
    }
    fn clone_box(&self) -> Box<dyn ErasedVariant> {
        Box::new(self.clone())
    }
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError> {
        let mut changed = self.clone();
        VariantParams::set_values(&mut changed, values)?;
        *self = changed;
        Ok(())
    }
    fn to_values(&self) -> ParamValues {
        VariantParams::to_values(self)
    }
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError> {
        VariantParams::bind(self, dims)
    }
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem> {
        VariantParams::shape(self, field, dims)
    }
    fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        VariantParams::visit_args(self, visitor);
    }
    fn normalizer(&self) -> Normalizer {
        V::NORMALIZER
    }

    fn query_row(&self, q: &mut [f32], at: RowIndex) {
        let mut row = q;
        self.query_transform(&mut row, at);
    }
    fn key_row(&self, k: &mut [f32], at: KvIndex) {
        let mut row = k;
        self.key_transform(&mut row, at);
    }
    fn logits_tile(&self, logits: &mut [f32], at: LogitIndex) {
        for (logit, at) in logits.iter_mut().zip(along(at)) {
            *logit = self.logits_transform(*logit, at);
        }
    }
    fn mask_tile(&self, keep: &mut [bool], at: LogitIndex) {
        for (keep, at) in keep.iter_mut().zip(along(at)) {
            *keep &= self.logits_mask(at);
        }
    }
    fn weight_tile(&self, logits: &mut [f32], row_max: f32, at: LogitIndex) {
        for (logit, at) in logits.iter_mut().zip(along(at)) {
            *logit = self.weight(*logit, row_max, at);
        }
    }
    fn sink_logit(&self, at: RowIndex) -> f32 {
        AttentionVariant::sink_logit(self, at)
    }
    fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex) {
        let mut row = o;
        self.output_transform(&mut row, state, at);
    }
    fn value_row(&self, v: &mut [f32], at: KvIndex) {
        let mut row = v;
        self.value_transform(&mut row, at);
    }
    fn denominator_tile(&self, denominators: &mut [f32], weights: &[f32], row_max: f32, at: LogitIndex) {
        for ((x, weight), at) in denominators.iter_mut().zip(weights).zip(along(at)) {
            *x = self.denominator(*x, row_max, *weight, at);
        }
    }
    fn max_floor(&self) -> f32 {
        V::MAX_FLOOR
    }
    fn mask_over(&self, tile: &Tile) -> Tri {
        Described::mask_over(self, tile)
    }
    fn remap_over(&self, tile: &Tile) -> Tile {
        Described::remap_over(self, tile)
    }
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        AttentionVariant::kv_range(self, tile)
    }
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        AttentionVariant::kv_list_len(self, at)
    }
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        AttentionVariant::kv_list_block(self, at, n)
    }
    fn kv_list_sizes(&self) -> (i32, i32) {
        (self.kv_list_block_size(), self.kv_list_queries())
    }
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        AttentionVariant::remap_qo_pos(self, at)
    }
    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        AttentionVariant::remap_kv_pos(self, at)
    }
}

/// The logits of a tile row: consecutive keys from `at` on.
fn along(at: LogitIndex) -> impl Iterator<Item = LogitIndex> {
    (0i32..).map(move |i| LogitIndex {
        row: at.row,
        kv_pos: at.kv_pos.wrapping_add(i),
        kv_token: at.kv_token.wrapping_add(i),
        kv_slot: at.kv_slot,
    })
}

/// Makes a variant from values by name and forgets its type: [`VariantDesc::make`].
pub fn make<V: Described>(values: &ParamValues) -> Result<Box<dyn ErasedVariant>, ParamError> {
    Ok(Box::new(V::from_values(values)?))
}

impl Clone for Box<dyn ErasedVariant> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// As an expression writes it: `soft_cap(cap=30)`.
impl fmt::Display for dyn ErasedVariant + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.desc().name)?;
        let values = self.to_values();
        for (i, (name, value)) in values.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "(" } else { ", " })?;
        }
        f.write_str(if values.0.is_empty() { "" } else { ")" })
    }
}

impl fmt::Debug for dyn ErasedVariant + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
