//! References and assignments.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(Reference RowRenamed ParameterAssigned TuplePartAssigned);

#[attention_variant]
impl AttentionVariant for Reference {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let x = &logit;
        *x + self.a
    }
}

#[attention_variant]
impl AttentionVariant for RowRenamed {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        let row = q;
        row.map(|_, x| x * self.a);
    }
}

#[attention_variant]
impl AttentionVariant for ParameterAssigned {
    fn logits_transform(&mut self, logit: f32, _at: LogitIndex) -> f32 {
        self.a = 1.0;
        logit
    }
}

#[attention_variant]
impl AttentionVariant for TuplePartAssigned {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut pair = (logit, self.a);
        pair.0 = 1.0;
        pair.0 + pair.1
    }
}

fn main() {}
