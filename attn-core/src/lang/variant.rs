//! The trait that a user implements.

use super::{KvIndex, LogitIndex, QueryTile, Row, RowIndex, RowState, VariantParams};

/// How weights become an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalizer {
    /// `softmax(logits)`: a running maximum, weights `exp(logit - row_max)`, divided by their sum.
    Softmax,
    /// Weights of one's own that are homogeneous, `f(s, m) = exp(-m) f(s, 0)`, with a denominator of one's own
    /// (softpick, dropout): rescaling online and merging splits are then exact. A sink enters as
    /// `denominator(sink, m, weight(sink, m))`.
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
///
/// What a hook may be made of, the same on both sides:
/// - `let`, tuples, arrays of a fixed length (`[f32; 4]`), `if`, `match`, `for` over ranges, early `return`; f32, i32, u32, u8, u64, bool.
/// - Structs and enums without fields that [`#[device_type]`](macro@crate::device_type) was put on, `Copy` and not generic: literals,
///   fields, `Line { bias: 0.0, ..line }`, assignment to a field of a variable, `let Line { slope, .. } = line`; of an enum `match`, `==`,
///   casts to integers, constants. They go into helpers and come out of them; parameters of a variant they are not.
/// - Integers wrap, shifts are masked, division truncates; casts from f32 saturate; `min` and `max` ignore NaN. Integer division by 0
///   panics in Rust and gives 0 on the GPU: say `#[require(n > 0)]` of a parameter that divides. Such divisions, `/`, `%`,
///   `div_euclid` and `rem_euclid` by `self.n`, are prepared once on the host: a multiplication for each logit.
/// - An index of an array (`a[i as usize]`) must be seen to stay inside: a literal, a `for` over literals, `i & 3`,
///   `i.rem_euclid(4)`, `i.clamp(0, 3)`. An index of a captured tensor is clamped instead.
/// - Parameters: `self.cap`, `self.scale.get()`, `self.table[i]`, `self.table[[i, j, k]]`; an output tensor takes
///   `self.out.store([i, j], x)` and `self.out.atomic_max(i, x)`, in hooks of logits, weights, sinks and outputs.
/// - The methods of numbers, [`approx`](super::approx) and [`random`](super::random), constants, and free functions with
///   `#[device_fn]`, which may be generic over constants (`helper::<4>(x)`).
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
    /// Rewrites a value row.
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
    /// Under [`Normalizer::MaxScaled`], what a logit adds to the denominator.
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
    /// The keys `(begin, end)` that rows of the tile may attend to, `begin <= key < end`: a promise that `logits_mask` is
    /// false elsewhere, for what cannot be derived from it. Kernels intersect it with what they derive.
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        let _ = tile;
        (0, i32::MAX)
    }
    /// Where keys come from a list of blocks (Quest, NSA, DSA): how many blocks the list of this row has. A row attends to
    /// keys of its list alone, and to those only where `logits_mask` holds; blocks past the last key are ignored.
    ///
    /// Rows of one KV head whose `qo_row` are the same when divided by [`kv_list_queries`](Self::kv_list_queries) share a list: it is
    /// asked of one of them.
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        let _ = at;
        0
    }
    /// The `n`-th block of the list, counted in blocks from key 0. No block may come twice.
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        let _ = at;
        n
    }
    /// Keys of a block of the list, at least 1.
    fn kv_list_block_size(&self) -> i32 {
        1
    }
    /// How many consecutive queries share a list, at least 1.
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
