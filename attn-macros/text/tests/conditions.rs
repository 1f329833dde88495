//! `&&` and `||` of a mask: as bit operators where their right side is cheap, and as they are elsewhere.

use attn_core::lang::Hook;

/// The value that a mask of this condition returns, as CUDA. It has a table and a number.
fn mask(condition: &str) -> String {
    let source = format!(
        "use attn::prelude::*;\n\
        #[derive(VariantParams, Default)]\n\
        pub struct Masked {{ #[shape(qo_tokens)] first: Tensor1<i32>, size: i32 }}\n\
        #[attention_variant(name = \"masked\")]\n\
        impl AttentionVariant for Masked {{\n\
        fn logits_mask(&self, at: LogitIndex) -> bool {{ {condition} }}\n\
        }}\n"
    );
    let variants = attn_text::load(&[("masked.rs", &source)]).unwrap_or_else(|error| panic!("{error}"));
    let text = variants[0].hooks.iter().find(|text| text.hook == Hook::LogitsMask).expect("the hook").cuda;
    let (_, body) = text.split_once("return ").unwrap_or_else(|| panic!("a value: {text}"));
    body.split_once(';').expect("its end").0.to_owned()
}

#[test]
fn sides_of_a_few_coordinates_have_no_branch() {
    let near = mask("at.kv_pos <= at.qo_pos && (at.kv_pos < 4 || at.qo_pos - at.kv_pos < self.size)");
    let wanted = "bool((at.kv_pos <= at.qo_pos) & ((at.kv_pos < 4) | (at.qo_pos - at.kv_pos < size_)))";
    assert_eq!(near, wanted);
    // the left side is evaluated in any case
    let loaded = mask("self.first[at.qo_token] == 0 && at.kv_pos < self.size");
    assert!(loaded.contains('&') && !loaded.contains("&&"), "{loaded}");
}

#[test]
fn a_side_that_costs_something_stays_behind_its_condition() {
    for costly in [
        "at.kv_pos <= at.qo_pos && self.first[at.qo_token] <= at.kv_pos",
        "at.kv_pos <= at.qo_pos && at.kv_pos / self.size == 0",
        "at.kv_pos <= at.qo_pos && (at.kv_pos as f32).exp() < 2.0",
        "at.kv_pos < 9 && at.kv_pos + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 < 9",
    ] {
        let text = mask(costly);
        assert!(text.contains("&&"), "{costly}: {text}");
    }
}

#[test]
fn a_side_that_is_the_same_for_all_elements_stays() {
    assert_eq!(mask("at.kv_pos <= at.qo_pos && self.size < 7"), "at.kv_pos <= at.qo_pos && size_ < 7");
}
