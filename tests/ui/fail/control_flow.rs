//! Control flow that hooks do not have.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

include!("../structs.rs");
structs!(
    IfLet LetElse Closure Labels LeavingAValue UnboundedLoop ForOverValues QuestionMark CfgInHook ChangeInValue
    PanicMacro ReductionInBranch
);

#[attention_variant]
impl AttentionVariant for IfLet {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if let 3 = at.kv_pos {
            return self.a;
        }
        logit
    }
}

#[attention_variant]
impl AttentionVariant for LetElse {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let (x, 1) = (logit, self.n) else {
            return 0.0;
        };
        x
    }
}

#[attention_variant]
impl AttentionVariant for Closure {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let twice = |x: f32| x * 2.0;
        twice(logit)
    }
}

#[attention_variant]
impl AttentionVariant for Labels {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut sum = logit;
        'outer: for i in 0..3 {
            for j in 0..i {
                sum += j as f32;
                break 'outer;
            }
        }
        sum
    }
}

#[attention_variant]
impl AttentionVariant for LeavingAValue {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut sum = logit;
        for _ in 0..3 {
            sum += if self.flag { break } else { 1.0 };
        }
        sum * match self.u {
            0 => return 1.0,
            n => n as f32,
        }
    }
}

#[attention_variant]
impl AttentionVariant for UnboundedLoop {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut x = logit;
        while x > 1.0 {
            x *= 0.5;
        }
        loop {
            break;
        }
        x
    }
}

#[attention_variant]
impl AttentionVariant for ForOverValues {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut x = logit;
        for y in [1.0, 2.0] {
            x += y;
        }
        x
    }
}

#[attention_variant]
impl AttentionVariant for QuestionMark {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let y = Some(logit)?;
        y
    }
}

#[attention_variant]
impl AttentionVariant for CfgInHook {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        #[cfg(feature = "fast")]
        return approx::tanh(logit);
        logit.tanh()
    }
}

#[attention_variant]
impl AttentionVariant for ChangeInValue {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut x = logit;
        x + {
            x += 1.0;
            x
        }
    }
}

#[attention_variant]
impl AttentionVariant for PanicMacro {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        assert!(logit > 0.0);
        let y = format!("{logit}");
        logit
    }
}

#[attention_variant]
impl AttentionVariant for ReductionInBranch {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        if at.qo_pos > 3 {
            let norm = q.sum_sq().sqrt();
            q.map(|_, x| x / norm);
        }
    }
}

#[device_fn]
fn sum(n: i32) -> i32 {
    let mut sum = 0;
    #[unroll(twice)]
    for i in 0..n {
        sum += i;
    }
    sum
}

#[device_fn]
fn none(n: i32) -> i32 {
    let mut sum = 0;
    #[unroll(0)]
    for i in 0..n {
        sum += i;
    }
    sum
}

fn main() {}
