//! The same words wherever a variant with a format is bound, and by name too.

use super::{bound, declare, without_lines};
use attn::{AttentionOptions, Dtype, Dtypes, Engine, HeadDimVo, Heads, Spec, Target, Variant, supports};
use attn_core::{lang::KvFormats, ops::append::Transform};
use attn_testing::{Case, case_supports};

declare!(
    WithoutSide,
    |dim| dim,
    |_| 0,
    |x, codes, side, _kv_head| {
        side.set_f32(0, x.max_abs(0, x.dim()));
        codes.pack8(0, x, 0, x.dim(), |_, v| v as u32);
    },
    |codes, side, _kv_head, d| { [codes.u8(d) as f32 * side.f32(0); 8] }
);

#[test]
fn every_door_says_the_same() {
    let reason = bound(WithoutSide, 64).expect_err("there is no side data");
    let says = |error: &dyn std::fmt::Display| {
        let error = without_lines(&error.to_string());
        assert!(error.contains(&reason), "{error}, and not {reason}");
    };
    let heads = Heads { qo: 6, kv: 3, head_dim: 64 };
    let (typed, full) = (Variant::full().with_kv_formats(KvFormats::both(WithoutSide)), Variant::full());
    attn::registry::register_kv_formats(attn_core::kv_formats![WithoutSide]).expect("one of the name");
    let by_name = Dtypes::bf16().with_kv_format("without_side").expect("a format");
    for (variant, dtypes) in [(&typed, Dtypes::bf16().with_kv(Dtype::U8)), (&full, by_name)] {
        let engine = Engine::cpu();
        says(&engine.attention_with(variant, heads, dtypes, AttentionOptions::default()).expect_err("refused"));
        for target in [Target::Cpu, Target::Cuda { capability: (9, 0) }] {
            says(&supports(&Spec::new(variant, heads, dtypes, target)).expect_err("refused"));
        }
    }
    says(&Transform::with_values(&typed, heads, HeadDimVo::Same).expect_err("refused"));
    // a case of `attn check`
    let case = Case { head_dim: 64, qo_heads: 6, kv_heads: 3, ..Case::new("full") };
    let case = case.over_format("without_side").expect("it counts no keys");
    match case_supports(&case, Target::Cpu) {
        Ok(supported) => says(&supported.expect_err("refused")),
        Err(error) => says(&error),
    }
}
