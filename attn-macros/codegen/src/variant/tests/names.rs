//! Names of locals, scopes, comments and files.

use super::*;

#[test]
fn locals_avoid_names_of_cpp_and_of_the_language() {
    let text = transform(&quote!(
        let int = logit;
        let max = int.max(self.max);
        let cap_ = max;
        cap_
    ));
    assert_eq!(
        text,
        "  const float int_2 = float(logit);\n  const float max_2 = max(int_2, max_);\n  const float cap = max_2;\n  \
             return cap;"
    );
}

#[test]
fn shadowing_renames_and_scopes_free_names() {
    let text = transform(&quote!(
        let x = logit;
        let x = x + 1.0;
        if self.flag {
            let y = x;
            return y;
        }
        let y = x;
        y
    ));
    assert!(text.contains("const float x_2 = x + 1.0f;"), "{text}");
    assert!(text.ends_with("const float y = x_2;\n  return y;"), "{text}");
}

#[test]
fn a_row_index_is_the_logit_index_without_its_key() {
    assert_eq!(mask(&quote!(at.row.qo_pos == (*at).qo_row)), "  return at.qo_pos == at.qo_row;");
}

#[test]
fn variable_does_not_clash_with_names_in_its_initialiser() {
    let text = transform(&quote! {
        let x: f32 = if self.flag { let mut x = logit; x += 1.0; x } else { 2.0 };
        x
    });
    assert!(text.starts_with("  float x_2;\n") && text.ends_with("return x_2;"), "{text}");
}

#[test]
fn comments_and_file_names_stay_on_one_line() {
    use crate::names::{comment, file_literal};
    assert_eq!(comment("/// a \\ \\ "), "/// a");
    assert_eq!(comment("/// a\rint b; \u{b} ??/"), "/// a int b;   ?/");
    assert_eq!(file_literal("a\"\\\n#error é.rs"), "\"a___#error _.rs\"");
}
