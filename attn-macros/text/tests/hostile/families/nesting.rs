//! One construct within the other: expressions, conditions of masks, `#[require]`s, and types.

use super::source::{Texts, mask, nested, transform, variant};

pub(super) fn add(all: &mut Texts) {
    let of_floats = [
        ("parens", "(", "logit", ")"),
        ("blocks", "{", "logit", "}"),
        ("ifs", "if self.a > 0.0 { logit } else {", "logit", "}"),
        ("ifs_first", "if self.a > 0.0 {", "logit", "} else { logit }"),
        ("conditions", "if (", "logit", ") > 0.0 { logit } else { logit }"),
        ("matches", "match 3 { 1 => logit, _ => ", "logit", "}"),
        ("subjects", "match ", "1", " { 1 => 2, n => n }"),
        ("guards", "match 1 { n if (", "logit", ") > 0.0 => logit, _ => logit }"),
        ("lets", "{ let x = ", "logit", "; x }"),
        ("typed_lets", "{ let x: f32 = ", "logit", "; x }"),
        ("mutable", "{ let mut x = ", "logit", "; x += x; x }"),
        ("tuples", "(", "logit", ", logit).0"),
        ("tuples_of_tuples", "(", "logit", ", logit)"),
        ("arrays", "[", "logit", "]"),
        ("repeats", "[", "logit", "; 64]"),
        ("negations", "-", "logit", ""),
        ("negations_in", "-(", "logit", ")"),
        ("casts", "(", "logit", " as i32) as f32"),
        ("methods", "", "logit", ".max(logit)"),
        ("arguments", "logit.max(", "logit", ")"),
        ("approx", "approx::tanh(", "logit", ")"),
        ("calls", "helper(", "logit", ")"),
        ("closures", "|x| ", "logit", ""),
        ("sums", "logit + (", "logit", ")"),
        ("products", "logit * (", "logit", ")"),
        ("structs", "S { x: ", "logit", " }"),
        ("fields", "S { x: ", "logit", " }.x"),
        ("attributes", "#[a] (", "logit", ")"),
        ("indices", "self.t[(", "1", ") as i32]"),
        ("generics", "helper::<{ ", "4", " }>(logit)"),
        ("unsafe", "unsafe {", "logit", "}"),
        ("returns", "return ", "logit", ""),
        ("labels", "'a: {", "logit", "}"),
        ("macros", "m!(", "logit", ")"),
        ("ranges", "(0..", "1", ")"),
    ];
    for (name, open, inside, close) in of_floats {
        for n in [12, 20, 30, 60, 300, 5000] {
            all.add(format!("{name}_{n}"), transform(&nested(open, inside, close, n)));
        }
    }
    let of_conditions = [
        ("not", "!(", "at.kv_pos < 3", ")"),
        ("and", "at.kv_pos > 1 && (", "at.kv_pos < 3", ")"),
        ("mixed", "at.kv_pos > 1 || !(at.kv_pos < 9 && (", "at.kv_pos < 3", "))"),
        ("if", "if at.kv_pos > at.qo_pos { true } else {", "at.kv_pos < 3", "}"),
        ("if_both", "if ", "at.kv_pos < 3", " { at.qo_pos > 3 } else { at.qo_pos < 3 }"),
        ("match", "match at.kv_pos { 1 => false, n if n > 7 => true, _ => ", "at.kv_pos < 3", "}"),
        ("guard", "match at.kv_pos { n if ", "at.kv_pos < 3", " => n > 3, _ => false }"),
        ("equal", "(", "at.kv_pos < 3", ") == (at.qo_pos < 3)"),
        ("let", "{ let x = ", "at.kv_pos < 3", "; x & (at.qo_pos < 5) }"),
        ("for", "{ let mut x = ", "at.kv_pos < 3", "; for i in 0..9 { x = x & (i < at.kv_pos); } x }"),
        ("bits", "(1 << (1 & (", "at.kv_pos", "))) as i32"),
    ];
    for (name, open, inside, close) in of_conditions {
        for n in [12, 20, 30, 60, 300] {
            all.add(format!("mask_{name}_{n}"), mask(&nested(open, inside, close, n)));
        }
    }
    for (name, open, inside, close) in [
        ("contains", "(0..9).contains(&", "n", ")"),
        ("all", "t.as_slice().iter().all(|x| ", "true", ")"),
        ("abs", "(", "n", ").abs()"),
    ] {
        for n in [12, 20, 30, 60, 300] {
            let condition = nested(open, inside, close, n);
            let fields = format!("#[require({condition})] n: i32, #[shape(batch)] t: Tensor1<i32>");
            all.add(format!("require_{name}_{n}"), variant("", &fields, "logit", ""));
        }
    }
    for (name, open, close) in [
        ("array", "[", "; 64]"),
        ("tuple", "(", ", f32)"),
        ("reference", "&", ""),
        ("option", "Option<", ">"),
        ("function", "fn() -> ", ""),
        ("pointer", "*const ", ""),
        ("dyn", "dyn Fn() -> ", ""),
        ("qualified", "<", " as A>::B"),
        ("slice", "[", "]"),
    ] {
        for n in [4, 12, 20, 60, 300] {
            let text = nested(open, "f32", close, n);
            all.add(format!("type_{name}_{n}"), transform(&format!("let x: {text} = logit; logit")));
            all.add(format!("field_{name}_{n}"), variant("", &format!("a: {text}"), "logit", ""));
            let items = format!("#[device_type] #[derive(Clone, Copy)] struct S {{ x: {text} }}");
            all.add(format!("device_type_{name}_{n}"), variant(&items, "", "logit", ""));
            let items = format!("#[device_fn] fn f(x: {text}) -> {text} {{ x }}");
            all.add(format!("argument_{name}_{n}"), variant(&items, "", "logit", ""));
        }
    }
}
