extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_type};

#[device_type]
#[derive(Clone, Copy)]
pub struct Ends {
    pub from: i32,
    pub to: i32,
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let me = at.qo_token;
        let (row, head) = (at.qo_row / 64, at.qo_head);
        let ends = Ends { from: at.kv_token - 3, to: at.kv_pos };
        let mut last = 0;
        for i in 0..3 {
            last = at.qo_token + i;
        }
        at.qo_token >= at.kv_pos
            && me + self.n >= at.kv_pos
            && row == at.kv_pos / 64
            && head < at.batch
            && at.qo_pos - ends.from < self.n
            && ends.to.min(me) > 3
            && last as f32 > at.kv_pos as f32 + 0.5
            && match at.kv_pos % 2 { 0 => at.kv_token, _ => 5 } != at.qo_token
    }

    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let start = if at.qo_head == 0 { at.qo_token } else { 0 };
        logit - 0.5 * (start - at.kv_pos) as f32 - (at.qo_pos - at.kv_token).abs() as f32
    }

    // what is right for every batch, or said to be meant
    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        let first = at.qo_token - at.qo_row;
        let pos = at.qo_row + at.kv_len - at.qo_len;
        let near = pos - at.kv_pos < self.n && at.qo_row + self.n >= at.kv_pos && at.kv_head == at.qo_head / 4;
        let meant = space::plain(at.qo_token) >= at.kv_pos && first < at.qo_row;
        if near || meant { logit } else { 0.0 }
    }

    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };
}

fn main() {}
