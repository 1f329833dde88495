extern crate attn_core as attn;

use attn::lang::{AttentionVariant, LogitIndex, Normalizer, Row, RowIndex, RowState, Tensor1};
use attn::{VariantParams, attention_variant, compose};

#[derive(Clone, VariantParams)]
struct Causal;

#[attention_variant]
impl AttentionVariant for Causal {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

#[derive(Clone, VariantParams)]
struct SoftCap {
    cap: f32,
}

#[attention_variant]
impl AttentionVariant for SoftCap {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.cap * (logit / self.cap).tanh()
    }
}

#[derive(Clone, VariantParams)]
struct Sink {
    #[shape(qo_heads)]
    logits: Tensor1<f32>,
}

#[attention_variant]
impl AttentionVariant for Sink {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        self.logits[at.qo_head]
    }
}

#[derive(Clone, VariantParams)]
struct Relu;

#[attention_variant]
impl AttentionVariant for Relu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit.max(0.0)
    }
}

#[derive(Clone, VariantParams)]
struct Twice;

#[attention_variant]
impl AttentionVariant for Twice {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, _at: RowIndex) {
        o.map(|_d, x| 2.0 * x);
    }
}

#[derive(Clone, VariantParams)]
struct Even;

#[attention_variant]
impl AttentionVariant for Even {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos / 2
    }
}

fn sink() -> Sink {
    Sink { logits: [1.0].into() }
}

fn main() {
    // compositions that compile
    let _ = compose!(or(Causal, not(Causal)), SoftCap { cap: 1.0 }, sink());
    let _ = compose!(or(Causal, remap(Even, not(Causal))), remap(Even, SoftCap { cap: 1.0 } + sink()));
    let _ = compose!(per_head([0, 1], sink() + SoftCap { cap: 1.0 }, Causal), union(Causal, SoftCap { cap: 1.0 }));

    let _ = compose!(or(Causal, SoftCap { cap: 1.0 }));
    let _ = compose!(not(Causal + sink()));
    let _ = compose!(remap(Causal, SoftCap { cap: 1.0 }));
    let _ = compose!(union(Causal, Twice));
    let _ = compose!(remap(Even, union(Causal, Causal)));
    let _ = compose!(per_head([0, 1], Relu, Causal));
    let _ = compose!(per_head([0, 1], Causal, union(Causal, Causal)));
    let _ = compose!(per_head([0, 1], Causal, sink()), Relu);
    let _ = compose!(Relu, sink());
}
