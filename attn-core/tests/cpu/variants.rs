//! Variants that between them write every hook, each with its naive twin.

use attn::lang::{AttentionVariant, KvIndex, LogitIndex, Normalizer, Row, RowIndex, RowState, Tile, TileClass};
use attn::{Variant, VariantParams, attention_variant};

use super::naive::{At, FULL, Naive};

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
    fn tile_class(&self, tile: Tile) -> TileClass {
        if tile.kv_pos_min > tile.qo_pos_max || tile.qo_pos_min - tile.kv_pos_max > self.window {
            TileClass::Skip
        } else if tile.kv_pos_max <= tile.qo_pos_min && tile.qo_pos_max - tile.kv_pos_min <= self.window {
            TileClass::Full
        } else {
            TileClass::Partial
        }
    }
}

/// A mask over every index word, with nothing to prove of tiles.
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

/// A bias over every index word.
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

/// Rewrites the output by its log-sum-exp.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Gate;

#[attention_variant(name = "gate")]
impl AttentionVariant for Gate {
    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, _at: RowIndex) {
        let gate = if state.denominator == 0.0 { 3.0 } else { 1.0 + (state.row_max + state.denominator.ln()).tanh() };
        o.map(|_, x| x * gate + 0.5);
    }
}

fn compose(parts: Vec<Variant>) -> Variant {
    parts.into_iter().fold(Variant::full(), |all, part| all.and(part).expect("parts that go together"))
}

fn rotated(angle: f64) -> Naive {
    Naive { angle, ..FULL }
}

/// Each variant under test and its twin.
pub(crate) fn get(index: usize) -> (Variant, Naive) {
    match index {
        0 => (Variant::full(), FULL),
        1 => (Band { window: 70 }.into(), Naive { mask: BAND, ..FULL }),
        2 => (Scattered.into(), Naive { mask: SCATTERED, ..FULL }),
        3 => (
            compose(vec![Band { window: 70 }.into(), Cap { cap: 2.0 }.into()]),
            Naive { mask: BAND, logit: |x, _| 2.0 * (x / 2.0).tanh(), ..FULL },
        ),
        4 => (Bias.into(), Naive { logit: BIAS, ..FULL }),
        5 => (compose(vec![RowSink.into(), Band { window: 70 }.into()]), Naive { sink: SINK, mask: BAND, ..FULL }),
        6 => (compose(vec![Nothing.into(), RowSink.into()]), Naive { sink: SINK, mask: |_| false, ..FULL }),
        7 => (Nothing.into(), Naive { mask: |_| false, ..FULL }),
        8 => (
            compose(vec![Sigmoid.into(), Scattered.into()]),
            Naive { plain: Some((|x| 1.0 / (1.0 + (-x).exp()), false)), mask: SCATTERED, ..FULL },
        ),
        9 => (
            compose(vec![Squares.into(), Band { window: 70 }.into()]),
            Naive { plain: Some((|x| x * x + 0.125, true)), mask: BAND, ..FULL },
        ),
        10 => (compose(vec![Rotate.into(), Rotate.into()]), rotated(0.5)),
        11 => (
            compose(vec![Gate.into(), Rotate.into(), Band { window: 70 }.into(), RowSink.into(), Bias.into()]),
            Naive { output: GATE, mask: BAND, sink: SINK, logit: BIAS, ..rotated(0.25) },
        ),
        _ => (compose(vec![Gate.into(), Nothing.into()]), Naive { output: GATE, mask: |_| false, ..FULL }),
    }
}

pub(crate) fn count() -> usize {
    13
}

const BAND: fn(&At) -> bool = |at| at.key <= at.qo_pos && at.qo_pos - at.key <= 70;
const SCATTERED: fn(&At) -> bool =
    |at| (at.kv_token + 2 * at.qo_token + 3 * at.qo_head + 5 * at.kv_head + 7 * at.request + 11 * at.qo_row) % 3 != 0;
const BIAS: fn(f64, &At) -> f64 = |logit, at| {
    let far = at.qo_pos - at.key + at.kv_token - at.qo_token + at.qo_row;
    logit + ((far + 3 * at.qo_head + 5 * at.kv_head + 7 * at.request) % 11) as f64 * 0.25
};
const SINK: fn(&At) -> f64 = |at| (at.qo_head - at.qo_row % 5) as f64 * 0.5;
const GATE: fn(f64, f64) -> f64 = |x, lse| {
    let gate = if lse == f64::NEG_INFINITY { 3.0 } else { 1.0 + lse.tanh() };
    x * gate + 0.5
};
