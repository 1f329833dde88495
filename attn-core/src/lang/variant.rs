//! The trait that a user implements.

use super::{KvIndex, LogitIndex, QueryTile, Row, RowIndex, RowState, VariantParams};

/// How weights become an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// `softmax(logits)`: weights `exp(logit - row_max)` with a running maximum, divided by their sum.
    Softmax,
    /// Custom weights and a custom denominator (softpick, dropout). Both must be homogeneous: `f(s, m) = exp(-m) f(s,
    /// 0)`. Online rescaling and split-KV merges are then exact. A sink enters the denominator as `denominator(sink, m,
    /// weight(sink, m))`.
    MaxScaled,
    /// Custom weights without a running maximum (`row_max` is 0): sigmoid, ReLU. Partial outputs add up.
    Plain {
        /// Whether the output is divided by the sum of the weights.
        divide: bool,
    },
}

/// An attention variant: hooks, each with a default that costs nothing.
///
/// Write the hooks that differ in ordinary Rust, and put `#[attention_variant]` on the impl. The same source then runs
/// on the CPU, and as CUDA inside every kernel.
///
/// Semantics:
/// - `logit` is scaled by `sm_scale`, in units of the natural logarithm.
/// - The result of `logits_transform` for a masked logit is ignored.
/// - A row without keys gives O = 0 and LSE = -inf; with a sink, LSE is the logit of the sink.
/// - `sink_logit` enters the denominator once, after all partial states are merged.
/// - `output_transform` runs once per row, after the merge, on the normalised output.
///
/// A hook may use, with the same meaning on CPU and GPU:
/// - `let`, tuples, arrays of a fixed length (`[f32; 4]`), `if`, `match`, `for` over ranges, early `return`; f32, i32,
///   u32, u8, u64, bool.
/// - Structs and enums without fields that have [`#[device_type]`](macro@crate::device_type), are `Copy` and not
///   generic: literals, fields, `Line { bias: 0.0, ..line }`, assignment to a field of a variable, `let Line { slope,
///   .. } = line`; of an enum `match`, `==`, casts to integers, constants. Helpers may take and return them; they
///   cannot be parameters of a variant.
/// - Integers wrap, shifts are masked, division truncates; casts from f32 saturate; `min` and `max` ignore NaN. Integer
///   division by 0 panics in Rust and gives 0 on the GPU: put `#[require(n > 0)]` on a parameter that divides. The host
///   prepares divisions (`/`, `%`, `div_euclid`, `rem_euclid`) by `self.n`; each then costs a multiplication.
/// - An index of an array (`a[i as usize]`) must be provably in range: a literal, a `for` over literals, `i & 3`,
///   `i.rem_euclid(4)`, `i.clamp(0, 3)`. An index of a parameter tensor is clamped instead.
/// - Parameters: `self.cap`, `self.scale.get()`, `self.table[i]`, `self.table[[i, j, k]]`; an output tensor takes
///   `self.out.store([i, j], x)` and `self.out.atomic_max(i, x)`, in hooks of logits, weights, sinks and outputs.
/// - The methods of numbers, [`approx`](super::approx) and [`random`](super::random), constants, and free functions
///   with `#[device_fn]`, which may be generic over constants (`helper::<4>(x)`).
///
/// A variant may be generic over constants: `#[attention_variant(name = "windowed", instances(4, 8))]` on
/// `impl<const N: i32> AttentionVariant for Windowed<N>` registers `windowed_4` and `windowed_8`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait AttentionVariant: VariantParams + Clone + Send + Sync + 'static {
    /// How weights become an output. Anything but `Softmax` needs `weight`.
    const NORMALIZER: Normalizer = Normalizer::Softmax;
    /// Under [`Normalizer::MaxScaled`], the initial row max.
    const MAX_FLOOR: f32 = f32::NEG_INFINITY;

    /// Transforms a query row, for example by a rotary embedding.
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let _ = (q, at);
    }
    /// Transforms a key row.
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let _ = (k, at);
    }
    /// Transforms a value row.
    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        let _ = (v, at);
    }
    /// Transforms one logit, for example by a bias or a soft cap.
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let _ = at;
        logit
    }
    /// Whether the query attends to the key.
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let _ = at;
        true
    }
    /// The weight of a logit. Write it exactly when `NORMALIZER` is not `Softmax`.
    fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let _ = at;
        (logit - row_max).exp()
    }
    /// Under [`Normalizer::MaxScaled`], the term that a logit adds to the denominator.
    fn denominator(&self, logit: f32, row_max: f32, weight: f32, at: LogitIndex) -> f32 {
        let _ = (logit, row_max, at);
        weight
    }
    /// The logit of a virtual key without a value; `-inf` for none.
    fn sink_logit(&self, at: RowIndex) -> f32 {
        let _ = at;
        f32::NEG_INFINITY
    }
    /// Transforms the normalised output row.
    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, at: RowIndex) {
        let _ = (o, state, at);
    }
    /// The keys `begin..end` that rows of the tile may attend to; `logits_mask` must be false for all other keys. Write
    /// this hook where the range cannot be derived from the mask. Kernels intersect it with the derived tile classes.
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        let _ = tile;
        (0, i32::MAX)
    }
    /// With a key list (Quest, arXiv 2406.10774; NSA, arXiv 2502.11089; DSA, DeepSeek-V3.2): the number of blocks in
    /// the list of this row. A row attends only to keys of its list where `logits_mask` holds. Blocks past the last key
    /// are ignored.
    ///
    /// Rows of one KV head with equal `qo_row / kv_list_queries()` share a list; the hook is called for one of them.
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        let _ = at;
        0
    }
    /// The `n`-th block of the list, as a block number. No block may occur twice.
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        let _ = at;
        n
    }
    /// Keys per block of the list, at least 1.
    fn kv_list_block_size(&self) -> i32 {
        1
    }
    /// Number of consecutive queries that share a list, at least 1.
    fn kv_list_queries(&self) -> i32 {
        1
    }
    /// Under `remap(self, inner)`: the `qo_pos` that the hooks of `inner` see, clamped to `-(2^30 - 1) ..= 2^30 - 1`.
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos
    }
    /// Under `remap(self, inner)`: the `kv_pos` that the hooks of `inner` see, clamped alike.
    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        at.kv_pos
    }
}
