extern crate attn_core as attn;

use attn::lang::*;
use attn::{attention_variant, variants};

#[derive(Clone)]
pub struct X {
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos < self.n
    }
}

fn main() {
    let _ = variants![X];
}
