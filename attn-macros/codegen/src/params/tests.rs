//! Tests of the derive on text; the tests of attn-core run what it emits, and show every error with its place.

use proc_macro2::TokenStream;

use super::derive;
use super::messages::{
    MONOTONE, MONOTONE_ON, MUTABLE, MUTABLE_MONOTONE, MUTABLE_ON, NOT_A_STRUCT, SHAPE_MISSING, TWICE, TYPE, UNNAMED,
};

fn expansion(item: &str) -> TokenStream {
    derive(item.parse().expect("tokens"))
}

/// Messages of the errors in the expansion of an item, in order.
fn errors(item: &str) -> Vec<String> {
    let text = expansion(item).to_string();
    let messages = text.split("compile_error ! { \"").skip(1);
    messages.filter_map(|message| message.split("\" }").next()).map(str::to_owned).collect()
}

/// Those of a struct with these fields.
fn of(fields: &str) -> Vec<String> {
    errors(&format!("struct V {{ {fields} }}"))
}

#[test]
fn a_refused_struct_has_a_fallback_impl() {
    let text = expansion("struct V { #[shape(heads)] a: Tensor1<f32> }").to_string();
    assert!(text.contains("compile_error") && text.contains("VariantParams for V"), "{text}");
}

#[test]
fn shapes_match_ranks_and_are_arithmetic() {
    let one = |shape: &str| of(&format!("#[shape({shape})] t: Tensor1<f32>, #[default(1)] n: i32"));
    assert_eq!(one("qo_heads, 2"), ["`Tensor1` has 1 extent, this shape has 2"]);
    assert!(one("2i32")[0].starts_with("a shape is written in whole numbers"));
    assert!(one("if n == 0 { head_dim } else { n / 2 }").is_empty());
}

#[test]
fn tensors_have_ranks_from_0_to_4() {
    for field in [
        "t: Tensor0<f32>",
        "#[shape(batch)] #[monotone] t: Tensor1<bool>",
        "#[shape(batch, 2)] #[monotone] t: attn::lang::Tensor<half::f16, 2>",
        "#[shape(1, 2, 3)] t: Tensor3<Bits>",
        "#[shape(1, 2, 3, 4)] t: Tensor4<F8E5M2>",
        "#[shape(1, 2)] t: OutTensor2",
        "#[shape(1, 2, 3, 4)] t: OutTensor<4>",
    ] {
        assert!(of(field).is_empty(), "{field}");
    }
    assert_eq!(of("#[shape(1)] t: Tensor0<f32>"), ["`Tensor0` has no extents: leave the shape away"]);
    assert_eq!(of("#[shape(1)] t: OutTensor3"), ["`OutTensor3` has 3 extents, this shape has 1"]);
    assert_eq!(of("t: OutTensor1"), [SHAPE_MISSING]);
}

#[test]
fn only_parameter_tensors_are_monotone() {
    assert_eq!(of("#[monotone] x: i32"), [MONOTONE_ON]);
    assert_eq!(of("#[monotone] x: Tensor0<i32>"), [MONOTONE_ON]);
    assert_eq!(of("#[monotone] #[shape(4)] x: OutTensor1"), [MONOTONE_ON]);
    assert_eq!(of("#[monotone(yes)] #[shape(4)] x: Tensor1<i32>"), [MONOTONE]);
    assert_eq!(of("#[monotone] #[monotone] #[shape(4)] x: Tensor1<i32>"), [TWICE]);
}

#[test]
fn only_parameter_tensors_are_mutable() {
    assert!(of("#[mutable] x: Tensor0<i32>").is_empty());
    assert!(of("#[mutable] #[shape(4)] x: Tensor1<f32>").is_empty());
    assert_eq!(of("#[mutable] x: i32"), [MUTABLE_ON]);
    assert_eq!(of("#[mutable] #[shape(4)] x: OutTensor1"), [MUTABLE_ON]);
    assert_eq!(of("#[mutable(yes)] x: Tensor0<i32>"), [MUTABLE]);
    assert_eq!(of("#[mutable] #[monotone] #[shape(4)] x: Tensor1<i32>"), [MUTABLE_MONOTONE]);
}

#[test]
fn axes_that_grow_with_a_batch_have_room() {
    let growing = |shape: &str| {
        let text = expansion(&format!("struct V {{ n: i32, #[shape({shape})] t: Tensor2<f32> }}")).to_string();
        let (_, after) = text.rsplit_once("growing_axes : ").expect("a descriptor");
        after.split("u8").next().expect("a number").to_owned()
    };
    assert_eq!(growing("batch, n"), "1");
    assert_eq!(growing("n, 2 * kv_tokens + 1"), "2");
    assert_eq!(growing("(qo_tokens + 7) / 8, kv_tokens - n"), "3");
    assert_eq!(growing("batch * qo_tokens, head_dim"), "1");
    // smaller for some larger batch
    assert_eq!(growing("kv_tokens % 2, if batch == 1 { 2 } else { 3 }"), "0");
    assert_eq!(growing("8 / batch, n - qo_tokens"), "0");
    assert_eq!(growing("kv_tokens / batch, if n == 1 { 2 } else { head_dim }"), "0");
}

#[test]
fn only_structs_with_named_fields_are_variants() {
    assert_eq!(errors("enum E { A }")[0], NOT_A_STRUCT);
    assert_eq!(errors("struct T(f32);")[0], UNNAMED);
    assert!(errors("struct U;").is_empty());
}

#[test]
fn defaults_for_all_fields_imply_default() {
    let has = |item: &str| expansion(item).to_string().contains("Default for V");
    assert!(has("struct V { #[default(1.0)] a: f32 }"));
    assert!(!has("struct V { #[default(1.0)] a: f32, b: f32 }"));
    assert!(!has("struct V;"));
}

#[test]
fn unsupported_types_are_refused() {
    for ty in ["f64", "usize", "&'static str", "String", "[f32; 4]", "(f32, f32)", "u8", "f16"] {
        assert_eq!(of(&format!("x: {ty}")), [TYPE], "{ty}");
    }
    for ty in ["Tensor5<f32>", "OutTensor0", "Tensor<f32, 5>", "OutTensor<0>"] {
        assert_eq!(of(&format!("x: {ty}")), [TYPE], "{ty}");
    }
    for elem in ["f64", "u16", "&'static f32", "Tensor1<f32>"] {
        assert_eq!(of(&format!("#[shape(4)] x: attn::lang::Tensor1<{elem}>")), [TYPE], "{elem}");
    }
    // only rustc can resolve an alias
    assert!(of("x: Width").is_empty());
}
