//! Variants that together cover every hook, each with an independent naive definition.

use attn::expr::Node;
use attn::lang::{AttentionVariant, KvIndex, LogitIndex, Normalizer, QueryTile, Row, RowIndex, RowState};
use attn::{Variant, VariantParams, attention_variant};

use super::naive::{ALL, At, Branch, FULL, Naive, Own};

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

#[attention_variant(name = "sigmoid")]
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

/// A variant under test and its naive definition.
pub(crate) fn get(index: usize) -> (Variant, Naive) {
    let band = || Variant::from(Band { window: 70 });
    match index {
        0 => (Variant::full(), FULL),
        1 => (band(), Naive { branches: &[BAND], ..FULL }),
        2 => (Scattered.into(), Naive { branches: &[SCATTERED], ..FULL }),
        3 => (
            compose(vec![band(), Cap { cap: 2.0 }.into()]),
            Naive { branches: &[Branch { logit: |x, _| 2.0 * (x / 2.0).tanh(), ..BAND }], ..FULL },
        ),
        4 => (Bias.into(), Naive { branches: &[BIAS], ..FULL }),
        5 => (compose(vec![RowSink.into(), band()]), Naive { branches: &[BAND], sink: SINK, ..FULL }),
        6 => (compose(vec![Nothing.into(), RowSink.into()]), Naive { branches: &[], sink: SINK, ..FULL }),
        7 => (Nothing.into(), Naive { branches: &[], ..FULL }),
        8 => (
            compose(vec![Sigmoid.into(), Scattered.into()]),
            Naive { branches: &[SCATTERED], own: Some(Own::Plain(SIGMOID, false)), ..FULL },
        ),
        9 => (
            compose(vec![Squares.into(), band()]),
            Naive { branches: &[BAND], own: Some(Own::Plain(|x| x * x + 0.125, true)), ..FULL },
        ),
        10 => {
            (compose(vec![Rotate.into(), Rotate.into()]), Naive { branches: &[Branch { angle: 0.5, ..ALL }], ..FULL })
        }
        11 => (
            compose(vec![Gate.into(), Rotate.into(), band(), RowSink.into(), Bias.into()]),
            Naive { branches: &[ROTATED_BAND_WITH_BIAS], output: GATE, sink: SINK, ..FULL },
        ),
        12 => (compose(vec![Gate.into(), Nothing.into()]), Naive { branches: &[], output: GATE, ..FULL }),
        13 => (compose(vec![Shifted.into(), band()]), Naive { branches: &[BAND], value: SHIFTED, ..FULL }),
        14 => (compose(vec![Rectified.into(), band()]), Naive { branches: &[BAND], own: Some(RECTIFIED), ..FULL }),
        15 => (
            compose(vec![OddTwice.into(), RowSink.into(), Gate.into(), Scattered.into(), Bias.into()]),
            Naive {
                branches: &[Branch { mask: SCATTERED.mask, ..BIAS }],
                own: Some(ODD_TWICE),
                sink: SINK,
                output: GATE,
                ..FULL
            },
        ),
        16 => (compose(vec![OddTwice.into(), Nothing.into()]), Naive { branches: &[], own: Some(ODD_TWICE), ..FULL }),
        17 => (compose(vec![Near { reach: 20 }.into(), Bias.into()]), Naive { branches: &[NEAR_WITH_BIAS], ..FULL }),
        18 => (Blocks.into(), Naive { list: Some(BLOCKS), ..FULL }),
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
            Naive {
                branches: &[ROTATED_BAND_WITH_BIAS],
                list: Some(BLOCKS),
                value: SHIFTED,
                output: GATE,
                sink: SINK,
                ..FULL
            },
        ),
        20 => (
            compose(vec![EveryOther.into(), Scattered.into(), Sigmoid.into()]),
            Naive { branches: &[SCATTERED], list: Some(EVERY_OTHER), own: Some(Own::Plain(SIGMOID, false)), ..FULL },
        ),
        21 => (
            union(vec![compose(vec![band(), Rotate.into()]), Bias.into()]),
            Naive { branches: &[Branch { angle: 0.25, ..BAND }, BIAS], ..FULL },
        ),
        22 => (
            compose(vec![
                RowSink.into(),
                union(vec![Scattered.into(), compose(vec![Rotate.into(), Rotate.into(), band()]), Nothing.into()]),
                Gate.into(),
                Shifted.into(),
                Bias.into(),
            ]),
            Naive {
                branches: &[Branch { mask: SCATTERED.mask, ..BIAS }, Branch { angle: 0.5, mask: BAND.mask, ..BIAS }],
                sink: SINK,
                output: GATE,
                value: SHIFTED,
                ..FULL
            },
        ),
        23 => (
            compose(vec![Rectified.into(), union(vec![band(), Near { reach: 90 }.into()])]),
            Naive { branches: &[BAND, Branch { mask: |at| near(at, 90), ..ALL }], own: Some(RECTIFIED), ..FULL },
        ),
        24 => {
            let slots = Branch {
                mask: |at| (slot(at) + at.qo_row) % 2 == 0,
                logit: |x, at| x + 0.25 * (slot(at) % 3) as f64,
                ..ALL
            };
            let list = Some(BLOCKS);
            (
                compose(vec![Blocks.into(), EveryOtherBlock.into()]),
                Naive { branches: Box::leak(Box::new([slots])), list, ..FULL },
            )
        }
        _ => (
            compose(vec![Squares.into(), union(vec![Nothing.into(), Nothing.into()])]),
            Naive { branches: &[], own: Some(Own::Plain(|x| x * x + 0.125, true)), ..FULL },
        ),
    }
}

pub(crate) fn count() -> usize {
    26
}

const BAND: Branch = Branch { mask: |at| at.key <= at.qo_pos && at.qo_pos - at.key <= 70, ..ALL };
const SCATTERED: Branch = Branch {
    mask: |at| {
        (at.kv_token + 2 * at.qo_token + 3 * at.qo_head + 5 * at.kv_head + 7 * at.request + 11 * at.qo_row) % 3 != 0
    },
    ..ALL
};
const BIAS: Branch = Branch {
    logit: |logit, at| {
        let far = at.qo_pos - at.key + at.kv_token - at.qo_token + at.qo_row;
        logit + ((far + 3 * at.qo_head + 5 * at.kv_head + 7 * at.request) % 11) as f64 * 0.25
    },
    ..ALL
};
const ROTATED_BAND_WITH_BIAS: Branch = Branch { angle: 0.25, mask: BAND.mask, ..BIAS };
const NEAR_WITH_BIAS: Branch = Branch { mask: |at| near(at, 20), ..BIAS };
const SIGMOID: fn(f64) -> f64 = |x| 1.0 / (1.0 + (-x).exp());
const RECTIFIED: Own = Own::Scaled(|x| (x.exp() - 1.0).max(0.0), |x, _| x.exp() + 1.0);
const ODD_TWICE: Own = Own::Scaled(f64::exp, |x, at| if at.key % 2 == 0 { x.exp() } else { 2.0 * x.exp() });
const SHIFTED: fn(f64, &At) -> f64 =
    |x, at| 0.5 * x + (at.key % 7 + 2 * at.kv_head + at.request + at.kv_token % 3) as f64 * 0.125;
const SINK: fn(&At) -> f64 = |at| (at.qo_head - at.qo_row % 5) as f64 * 0.5;
const GATE: fn(f64, f64) -> f64 = |x, lse| {
    let gate = if lse == f64::NEG_INFINITY { 3.0 } else { 1.0 + lse.tanh() };
    x * gate + 0.5
};
const BLOCKS: fn(&At) -> Vec<i64> = |at| {
    let len = 5 + (at.qo_row / 3 + at.kv_head + at.request) % 4;
    let block = |n| (7 * n + 3 * (at.qo_row / 3) + 2 * at.kv_head) % 53 - 1;
    (0..len).flat_map(|n| 4 * block(n)..4 * block(n) + 4).collect()
};
/// The index in the key list of the block that contains a key; 0 for a key outside the list.
fn slot(at: &At) -> i64 {
    BLOCKS(at).iter().position(|key| *key == at.key).map_or(0, |index| index as i64 / 4)
}
const EVERY_OTHER: fn(&At) -> Vec<i64> =
    |at| (0..at.kv_len / 2).map(|n| at.kv_len - 1 - 2 * n - at.qo_row % 2).collect();

fn near(at: &At, reach: i64) -> bool {
    (at.qo_pos - at.key).abs() <= reach && (at.key + at.qo_head) % 3 != 0
}
