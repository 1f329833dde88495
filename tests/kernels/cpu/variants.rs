//! Variants that together cover every hook, each with its formula.

use attn_core::expr::Node;
use attn_core::lang::{AttentionVariant, KvIndex, LogitIndex, Normalizer, QueryTile, Row, RowIndex, RowState};
use attn_core::{Variant, VariantParams, attention_variant};

use attn_tests::reference::{At, Formula, Sum, Weight};

/// Keys up to the query, and no further back than `window`.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Band {
    pub(crate) window: i32,
}

#[attention_variant(name = "band")]
impl AttentionVariant for Band {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos && at.qo_pos - at.kv_pos <= self.window
    }
}

/// A mask that reads every coordinate; no tile class is provable.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Scattered;

#[attention_variant(name = "scattered")]
impl AttentionVariant for Scattered {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.kv_token + 2 * at.qo_token + 3 * at.qo_head + 5 * at.kv_head + 7 * at.batch + 11 * at.qo_row) % 3 != 0
    }
}

/// No key at all.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Nothing;

#[attention_variant(name = "nothing")]
impl AttentionVariant for Nothing {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < 0
    }
}

/// A soft cap that gives NaN where `Band` masks.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Cap {
    pub(crate) cap: f32,
}

#[attention_variant(name = "cap")]
impl AttentionVariant for Cap {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let capped = self.cap * (logit / self.cap).tanh();
        if at.kv_pos > at.qo_pos { capped / 0.0 * 0.0 } else { capped }
    }
}

/// A bias that reads every coordinate.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Bias;

#[attention_variant(name = "bias")]
impl AttentionVariant for Bias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let far = at.qo_pos - at.kv_pos + at.kv_token - at.qo_token + at.qo_row;
        logit + ((far + 3 * at.qo_head + 5 * at.kv_head + 7 * at.batch) % 11) as f32 * 0.25
    }
}

/// A sink whose logit depends on the row.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct RowSink;

#[attention_variant(name = "row_sink")]
impl AttentionVariant for RowSink {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        (at.qo_head - at.qo_row % 5) as f32 * 0.5
    }
}

/// Sigmoid weights, not divided.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Sigmoid;

#[attention_variant(name = "sigmoid_of_the_formula")]
impl AttentionVariant for Sigmoid {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        1.0 / (1.0 + (-logit).exp())
    }
}

/// Squares as weights, divided.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Squares;

#[attention_variant(name = "squares")]
impl AttentionVariant for Squares {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        logit * logit + 0.125 + row_max
    }
}

/// Rotates queries and keys.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Rotate;

#[attention_variant(name = "rotate")]
impl AttentionVariant for Rotate {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let angle = 0.25 * at.qo_pos as f32;
        q.rotate_half(q.dim() / 2 * 2, |_| (angle.cos(), angle.sin()));
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let angle = 0.25 * at.kv_pos as f32;
        k.rotate_half(k.dim() / 2 * 2, |_| (angle.cos(), angle.sin()));
    }
}

/// Scales the output by a function of its log-sum-exp.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Gate;

#[attention_variant(name = "gate")]
impl AttentionVariant for Gate {
    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, _at: RowIndex) {
        let gate = if state.denominator == 0.0 { 3.0 } else { 1.0 + (state.row_max + state.denominator.ln()).tanh() };
        o.map(|_, x| x * gate + 0.5);
    }
}

/// Values that depend on the key.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Shifted;

#[attention_variant(name = "shifted")]
impl AttentionVariant for Shifted {
    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        let by = (at.kv_pos % 7 + 2 * at.kv_head + at.batch + at.kv_token % 3) as f32 * 0.125;
        v.map(|_, x| 0.5 * x + by);
    }
}

/// `max(e^s - 1, 0)` as weights, `e^s + 1` in the denominator.
///
/// Softpick has `|e^s - 1|` in the denominator. In f32 that term has an absolute error of about 1e-7. A row of few keys
/// with logits near 0 has a denominator of about 1e-4, so its log-sum-exp and outputs have errors of 1e-3, in the
/// reference too. This variant tests a denominator that differs from the weight without that cancellation.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Rectified;

#[attention_variant(name = "rectified")]
impl AttentionVariant for Rectified {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;
    const MAX_FLOOR: f32 = 0.0;
    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        ((logit - row_max).exp() - (-row_max).exp()).max(0.0)
    }
    fn denominator(&self, logit: f32, row_max: f32, _weight: f32, _at: LogitIndex) -> f32 {
        (logit - row_max).exp() + (-row_max).exp()
    }
}

/// Softmax whose odd keys count twice in the denominator; a sink, at -1, is odd.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct OddTwice;

#[attention_variant(name = "odd_twice")]
impl AttentionVariant for OddTwice {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;
    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        (logit - row_max).exp()
    }
    fn denominator(&self, _logit: f32, _row_max: f32, weight: f32, at: LogitIndex) -> f32 {
        if at.kv_pos & 1 == 1 { 2.0 * weight } else { weight }
    }
}

/// Some keys near the diagonal, with a `kv_range`.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Near {
    pub(crate) reach: i32,
}

#[attention_variant(name = "near")]
impl AttentionVariant for Near {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let far = at.qo_pos - at.kv_pos;
        far * far <= self.reach * self.reach && (at.kv_pos + at.qo_head) % 3 != 0
    }
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        (tile.qo_pos_min - self.reach, tile.qo_pos_max + self.reach + 1)
    }
}

/// Lists of blocks of 4 keys for 3 queries each, by KV head; some blocks are before the first key or past the last.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Blocks;

#[attention_variant(name = "blocks")]
impl AttentionVariant for Blocks {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        5 + (at.qo_row / 3 + at.kv_head + at.batch) % 4
    }
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        (7 * n + 3 * (at.qo_row / 3) + 2 * at.kv_head) % 53 - 1
    }
    fn kv_list_block_size(&self) -> i32 {
        4
    }
    fn kv_list_queries(&self) -> i32 {
        3
    }
}

/// Masks every other query for each block of a list, by the block's index in the list (`kv_slot`).
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct EveryOtherBlock;

#[attention_variant(name = "every_other_block")]
impl AttentionVariant for EveryOtherBlock {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.kv_slot + at.qo_row) % 2 == 0
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + 0.25 * (at.kv_slot % 3) as f32
    }
}

/// A list of single keys for each query: every other key, the last one first.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct EveryOther;

#[attention_variant(name = "every_other")]
impl AttentionVariant for EveryOther {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        at.kv_len / 2
    }
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        at.kv_len - 1 - 2 * n - at.qo_row % 2
    }
}

fn compose(parts: Vec<Variant>) -> Variant {
    parts.into_iter().fold(Variant::full(), |all, part| all.and(part).expect("parts that go together"))
}

fn union(branches: Vec<Variant>) -> Variant {
    Node::union(branches).into()
}

/// A variant under test and its formula.
pub(crate) fn get(index: usize) -> (Variant, Formula) {
    let band = || Variant::from(Band { window: 70 });
    let plain = Formula::plain;
    let banded = || Formula::masked(in_band);
    let empty = || Formula::masked(|_| false);
    match index {
        0 => (Variant::full(), plain()),
        1 => (band(), banded()),
        2 => (Scattered.into(), Formula::masked(scattered)),
        3 => (compose(vec![band(), Cap { cap: 2.0 }.into()]), banded().logit(|x, _| 2.0 * (x / 2.0).tanh())),
        4 => (Bias.into(), plain().logit(biased)),
        5 => (compose(vec![RowSink.into(), band()]), banded().sink(sink)),
        6 => (compose(vec![Nothing.into(), RowSink.into()]), empty().sink(sink)),
        7 => (Nothing.into(), empty()),
        8 => (compose(vec![Sigmoid.into(), Scattered.into()]), Formula::masked(scattered).weight(false, sigmoid)),
        9 => (compose(vec![Squares.into(), band()]), banded().weight(true, squares)),
        10 => (compose(vec![Rotate.into(), Rotate.into()]), rotated(plain(), 0.5)),
        11 => (
            compose(vec![Gate.into(), Rotate.into(), band(), RowSink.into(), Bias.into()]),
            rotated(banded(), 0.25).logit(biased).output(gate).sink(sink),
        ),
        12 => (compose(vec![Gate.into(), Nothing.into()]), empty().output(gate)),
        13 => (compose(vec![Shifted.into(), band()]), banded().value(shifted)),
        14 => (compose(vec![Rectified.into(), band()]), banded().weight(true, rectified)),
        15 => (
            compose(vec![OddTwice.into(), RowSink.into(), Gate.into(), Scattered.into(), Bias.into()]),
            Formula::masked(scattered).logit(biased).weight(true, odd_twice).sink(sink).output(gate),
        ),
        16 => (compose(vec![OddTwice.into(), Nothing.into()]), empty().weight(true, odd_twice)),
        17 => {
            (compose(vec![Near { reach: 20 }.into(), Bias.into()]), Formula::masked(|at| is_near(at, 20)).logit(biased))
        }
        18 => (Blocks.into(), Formula::masked(|at| slot(at).is_some())),
        19 => (
            compose(vec![
                Blocks.into(),
                Gate.into(),
                Rotate.into(),
                band(),
                RowSink.into(),
                Bias.into(),
                Shifted.into(),
            ]),
            rotated(Formula::masked(|at| in_band(at) && slot(at).is_some()), 0.25)
                .logit(biased)
                .value(shifted)
                .output(gate)
                .sink(sink),
        ),
        20 => (
            compose(vec![EveryOther.into(), Scattered.into(), Sigmoid.into()]),
            Formula::masked(|at| scattered(at) && in_every_other(at)).weight(false, sigmoid),
        ),
        21 => (
            union(vec![compose(vec![band(), Rotate.into()]), Bias.into()]),
            plain()
                .score(|q, k, at| product(q, k, at, if in_band(at) { 0.25 } else { 0.0 }))
                .logit(|x, at| if in_band(at) { x } else { biased(x, at) }),
        ),
        22 => (
            compose(vec![
                RowSink.into(),
                union(vec![Scattered.into(), compose(vec![Rotate.into(), Rotate.into(), band()]), Nothing.into()]),
                Gate.into(),
                Shifted.into(),
                Bias.into(),
            ]),
            Formula::masked(|at| scattered(at) || in_band(at))
                .score(|q, k, at| product(q, k, at, if scattered(at) { 0.0 } else { 0.5 }))
                .logit(biased)
                .sink(sink)
                .output(gate)
                .value(shifted),
        ),
        23 => (
            compose(vec![Rectified.into(), union(vec![band(), Near { reach: 90 }.into()])]),
            Formula::masked(|at| in_band(at) || is_near(at, 90)).weight(true, rectified),
        ),
        24 => (
            compose(vec![Blocks.into(), EveryOtherBlock.into()]),
            Formula::masked(|at| slot(at).is_some_and(|slot| (slot + at.row) % 2 == 0))
                .logit(|x, at| x + 0.25 * (slot(at).unwrap_or(0) % 3) as f64),
        ),
        _ => {
            (compose(vec![Squares.into(), union(vec![Nothing.into(), Nothing.into()])]), empty().weight(true, squares))
        }
    }
}

pub(crate) fn count() -> usize {
    26
}

fn in_band(at: &At) -> bool {
    at.j <= at.i && at.i - at.j <= 70
}

fn scattered(at: &At) -> bool {
    (at.kv_token + 2 * at.qo_token + 3 * at.h + 5 * at.g + 7 * at.b + 11 * at.row) % 3 != 0
}

fn is_near(at: &At, reach: i64) -> bool {
    (at.i - at.j).abs() <= reach && (at.j + at.h) % 3 != 0
}

fn biased(logit: f64, at: &At) -> f64 {
    let far = at.i - at.j + at.kv_token - at.qo_token + at.row;
    logit + ((far + 3 * at.h + 5 * at.g + 7 * at.b) % 11) as f64 * 0.25
}

/// Rotates the pairs `(d, d + n / 2)` of a row by an angle.
fn rotate(row: &mut [f64], angle: f64) {
    let (sin, cos) = angle.sin_cos();
    let half = row.len() / 2;
    for d in 0..half {
        let (x, y) = (row[d], row[d + half]);
        (row[d], row[d + half]) = (x * cos - y * sin, y * cos + x * sin);
    }
}

/// Queries and keys rotated by an angle times their positions.
fn rotated(formula: Formula, angle: f64) -> Formula {
    formula.query(move |q, at| rotate(q, angle * at.i as f64)).key(move |k, at| rotate(k, angle * at.j as f64))
}

/// The product of a query and a key that are rotated by an angle times their positions.
fn product(q: &[f64], k: &[f64], at: &At, angle: f64) -> f64 {
    let (mut q, mut k) = (q.to_vec(), k.to_vec());
    rotate(&mut q, angle * at.i as f64);
    rotate(&mut k, angle * at.j as f64);
    q.iter().zip(k).map(|(a, b)| a * b).sum()
}

fn sigmoid(logit: f64, _: &At) -> Weight {
    Weight::both(1.0 / (1.0 + (-logit).exp()))
}

fn squares(logit: f64, _: &At) -> Weight {
    Weight::both(logit * logit + 0.125)
}

fn rectified(logit: f64, _: &At) -> Weight {
    Weight { p: (logit.exp() - 1.0).max(0.0), addend: logit.exp() + 1.0 }
}

fn odd_twice(logit: f64, at: &At) -> Weight {
    Weight { p: logit.exp(), addend: if at.j % 2 == 0 { logit.exp() } else { 2.0 * logit.exp() } }
}

fn shifted(row: &mut [f64], at: &At) {
    let by = (at.j % 7 + 2 * at.g + at.b + at.kv_token % 3) as f64 * 0.125;
    row.iter_mut().for_each(|x| *x = 0.5 * *x + by);
}

fn sink(at: &At) -> f64 {
    (at.h - at.row % 5) as f64 * 0.5
}

fn gate(row: &mut [f64], sum: Sum, _: &At) {
    let gate = if sum.lse == f64::NEG_INFINITY { 3.0 } else { 1.0 + sum.lse.tanh() };
    row.iter_mut().for_each(|x| *x = *x * gate + 0.5);
}

/// The index in the list of [`Blocks`] of the block that contains a key.
fn slot(at: &At) -> Option<i64> {
    let len = 5 + (at.row / 3 + at.g + at.b) % 4;
    (0..len).find(|n| (7 * n + 3 * (at.row / 3) + 2 * at.g) % 53 - 1 == at.j / 4)
}

/// Whether the list of [`EveryOther`] has a key.
fn in_every_other(at: &At) -> bool {
    let back = at.kv_len - 1 - at.row % 2 - at.j;
    back >= 0 && back % 2 == 0 && back / 2 < at.kv_len / 2
}
