//! The descriptor of a variant, and the object-safe trait that compositions run on the CPU.

use std::{any::Any, fmt};

use super::desc::{ConstDesc, CoordinateRead, DeviceFn, FieldDesc, Hook, HookText, MaskText};
use super::device_type::TypeLink;
use super::params::ErasedParams;
use super::{
    AttentionVariant, KvIndex, LogitIndex, Normalizer, ParamError, ParamValues, QueryTile, RowIndex, RowState, Tile,
    Tristate,
};

/// Makes the variant of a descriptor.
pub type Make = fn(&'static VariantDesc, &ParamValues) -> Result<Box<dyn ErasedVariant>, ParamError>;

/// The descriptor of a variant: everything known without running it.
#[derive(Clone, Copy, Debug)]
pub struct VariantDesc {
    /// Registered name, `snake_case`.
    pub name: &'static str,
    /// Name of the Rust struct, and of the C++ struct.
    pub type_name: &'static str,
    /// Doc comment of the impl, else of the struct; its first paragraph is the summary.
    pub doc: &'static str,
    /// File of the impl, as rustc names it.
    pub file: &'static str,
    /// Line of the impl.
    pub line: u32,
    /// The hooks that the user wrote, in the order of [`Hook::ALL`].
    pub hooks: &'static [HookText],
    /// The normaliser.
    pub normalizer: Normalizer,
    /// `MAX_FLOOR`.
    pub max_floor: f32,
    /// Parameters in order.
    pub fields: &'static [FieldDesc],
    /// Text derived from `logits_mask`.
    pub mask: MaskText,
    /// `auto logits_bias(LogitIndex at) const`: the addend, where `logits_transform` only adds to the logit; else
    /// empty.
    pub bias: &'static str,
    /// `float logits_slope(LogitIndex at) const`: the increase of the bias from one key to the next, where the bias is
    /// affine in the key's position; else empty.
    pub slope: &'static str,
    /// `auto logits_bias_row(LogitIndex at) const`: the row of a parameter tensor, where the bias is an element of it
    /// and the key's position is the last index; else empty.
    pub bias_row: &'static str,
    /// `float logits_bound() const`: a bound of `|logits_transform(..)|` for every logit and coordinate (NaN aside);
    /// else empty. It is infinite or NaN where the parameters prove no bound. Kernels use it for the static max.
    pub bound: &'static str,
    /// Scalars that a hook divides by; each has a member `Divisor<T> name_div_` beside it.
    pub divisors: &'static [&'static str],
    /// Whether a hook stores to an output tensor. Kernels then call hooks only for logits and rows within the problem.
    pub stores: bool,
    /// Whether a hook reads `kv_slot`. The CPU then splits tile rows at blocks of the key list.
    pub slots: bool,
    /// The coordinates that hooks read.
    pub coordinates: &'static [CoordinateRead],
    /// Helpers that the hooks call directly.
    pub device_fns: &'static [&'static DeviceFn],
    /// Structs and enums that the hooks name directly.
    pub types: &'static [TypeLink],
    /// Constants that the hooks name directly.
    pub consts: &'static [ConstDesc],
    /// Makes the variant of this descriptor from parameters by name.
    pub make: Make,
    /// What a variant keeps that was read from Rust text at run time. It has no compiled hooks, so it runs on devices
    /// alone.
    pub text: Option<&'static (dyn Any + Send + Sync)>,
}

impl VariantDesc {
    /// Whether the user wrote this hook.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        self.hooks.iter().any(|h| h.hook == hook)
    }
}

/// A variant with a descriptor: `#[attention_variant]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    label = "this is no variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait Described {
    /// The descriptor. There is one per program: its address identifies the variant.
    fn desc() -> &'static VariantDesc;
    /// `logits_mask` over a whole tile, by abstract interpretation of its source: sound, not always exact.
    fn mask_over(&self, tile: &Tile) -> Tristate {
        let _ = tile;
        Tristate::Unknown
    }
    /// The tile as the inner hooks of `remap(self, ..)` see it, derived from `remap_qo_pos` and `remap_kv_pos`.
    fn remap_over(&self, tile: &Tile) -> Tile {
        *tile
    }
}

/// A type-erased variant. Every [`AttentionVariant`] with `#[attention_variant]` implements it.
///
/// A *tile row* is one query row against `logits.len()` consecutive keys, the first of them at `at`. Loops over it are
/// monomorphised, so there is one virtual call per tile row, not per logit.
pub trait ErasedVariant: ErasedParams {
    /// Its descriptor.
    fn desc(&self) -> &'static VariantDesc;
    /// A boxed copy.
    fn clone_box(&self) -> Box<dyn ErasedVariant>;

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
    /// `denominator` of a tile row. On entry `denominators` holds the logits; `weights` holds the result of
    /// [`Self::weight_tile`] for them.
    fn denominator_tile(&self, denominators: &mut [f32], weights: &[f32], row_max: f32, at: LogitIndex);
    /// `MAX_FLOOR`.
    fn max_floor(&self) -> f32;
    /// `sink_logit`.
    fn sink_logit(&self, at: RowIndex) -> f32;
    /// `output_transform` of one row.
    fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex);
    /// See [`Described::mask_over`].
    fn mask_over(&self, tile: &Tile) -> Tristate;
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

impl<V: AttentionVariant + Described> ErasedVariant for V {
    fn desc(&self) -> &'static VariantDesc {
        V::desc()
    }
    fn clone_box(&self) -> Box<dyn ErasedVariant> {
        Box::new(self.clone())
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
    fn mask_over(&self, tile: &Tile) -> Tristate {
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

/// The coordinates of consecutive logits from `at` on.
fn along(at: LogitIndex) -> impl Iterator<Item = LogitIndex> {
    (0i32..).map(move |i| LogitIndex {
        row: at.row,
        kv_pos: at.kv_pos.wrapping_add(i),
        kv_token: at.kv_token.wrapping_add(i),
        kv_slot: at.kv_slot,
    })
}

/// Makes a type-erased variant from values by name: [`VariantDesc::make`].
pub fn make<V: AttentionVariant + Described>(
    _desc: &'static VariantDesc,
    values: &ParamValues,
) -> Result<Box<dyn ErasedVariant>, ParamError> {
    Ok(Box::new(V::from_values(values)?))
}

impl Clone for Box<dyn ErasedVariant> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// Writes the variant as an expression: `soft_cap(cap=30)`.
impl fmt::Display for dyn ErasedVariant + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_values().write_call(f, self.desc().name)
    }
}

impl fmt::Debug for dyn ErasedVariant + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
