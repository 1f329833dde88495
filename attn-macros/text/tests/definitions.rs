//! What rustc refuses of a compiled file, and C++ or a map of names would take: refused with its place.

use attn_text::{TextError, load};

/// A variant with a mask, after other items.
fn masked(items: &str, fields: &str, mask: &str) -> String {
    format!(
        "{items}\n#[derive(Clone, VariantParams)]\nstruct Near {{ {fields} }}\n#[attention_variant]\n\
         impl AttentionVariant for Near {{\n    fn logits_mask(&self, at: LogitIndex) -> bool {{ {mask} }}\n}}\n"
    )
}

/// The mistakes in a text.
fn refused(text: &str) -> Vec<String> {
    match load(&[("near.rs", text)]) {
        Err(TextError::Rust(mistakes)) => mistakes.iter().map(ToString::to_string).collect(),
        other => panic!("{text}\n{other:?}"),
    }
}

#[test]
fn a_name_is_defined_once() {
    let mask = "at.qo_pos - at.kv_pos < self.x";
    let helper = |least: i32| format!("#[device_fn] fn far(x: i32) -> bool {{ x > {least} }}\n");
    let near = |hooks: &str| {
        format!(
            "#[derive(Clone, VariantParams)]\nstruct Near {{ x: i32 }}\n#[attention_variant]\n\
             impl AttentionVariant for Near {{\n{hooks}}}\n"
        )
    };
    let hook = "fn logits_mask(&self, at: LogitIndex) -> bool { at.qo_pos < self.x }\n";
    for (text, at, name) in [
        (masked("const W: i32 = 3;\nconst W: i32 = 5;", "x: i32", "at.kv_pos < W + self.x"), "near.rs:2:7", "W"),
        (masked(&format!("{}{}", helper(3), helper(5)), "x: i32", "far(self.x)"), "near.rs:2:17", "far"),
        (masked("#[derive(Clone)]\nstruct Near;", "x: i32", mask), "near.rs:4:8", "Near"),
        (
            masked("#[device_type] struct P { a: i32 }\n#[device_type] struct P { b: i32 }", "x: i32", mask),
            "near.rs:2:23",
            "P",
        ),
        (masked("", "x: i32, x: f32", mask), "near.rs:3:23", "x"),
        (near(&format!("{hook}{hook}")), "near.rs:6:4", "logits_mask"),
        (
            near(&format!("const MAX_FLOOR: f32 = 0.0;\nconst MAX_FLOOR: f32 = 1.0;\n{hook}")),
            "near.rs:6:7",
            "MAX_FLOOR",
        ),
    ] {
        let want = format!("{at}: `{name}` is defined twice");
        let found = refused(&text);
        assert!(found.iter().any(|mistake| mistake.starts_with(&want)), "{want}\n{found:#?}");
    }
    // files of a text are one module
    let (one, other) = (masked("", "x: i32", mask), "const A: i32 = 1;\nstruct Near;".to_owned());
    let error = load(&[("one.rs", &one), ("other.rs", &other)]).expect_err("two structs");
    assert!(error.to_string().contains("other.rs:2:8: `Near` is defined twice"), "{error}");
    let error = load(&[("near.rs", &near(&format!("const W: i32 = 3;\n{hook}")))]).expect_err("no such constant");
    assert!(error.to_string().contains("near.rs:5:7: `AttentionVariant` has no constant `W`"), "{error}");
    let twice = near(hook).replace("#[attention_variant]", "#[attention_variant(name = \"a\", name = \"b\")]");
    assert!(refused(&twice)[0].contains("the name is given twice"), "{twice}");
}

#[test]
fn two_variants_of_a_text_do_not_have_one_name() {
    let of = |name: &str| {
        format!(
            "#[derive(Clone, VariantParams)]\nstruct {name};\n#[attention_variant(name = \"same_name\")]\n\
             impl AttentionVariant for {name} {{\n    fn logits_mask(&self, at: LogitIndex) -> bool {{ at.kv_pos > 1 \
             }}\n}}\n"
        )
    };
    let found = refused(&format!("{}{}", of("A"), of("B")));
    assert!(found[0].starts_with("near.rs:10:27: two variants are called `same_name`"), "{found:?}");
}

#[test]
fn what_cfg_decides_is_refused_and_tests_are_not_read() {
    let mask = "at.qo_pos - at.kv_pos < self.x";
    for text in [
        masked("#[cfg(any())]\nconst W: i32 = 3;", "x: i32", "at.kv_pos < W + self.x"),
        masked("#[cfg(any())]\n#[device_fn] fn far(x: i32) -> bool { x > 3 }", "x: i32", mask),
        masked("", "#[cfg(any())] x: i32, y: i32", mask),
        masked("", "x: i32", mask).replace("#[attention_variant]", "#[attention_variant]\n#[cfg(any())]"),
        masked("#[cfg_attr(test, device_fn)]\n#[device_fn] fn far(x: i32) -> bool { x > 3 }", "x: i32", mask),
    ] {
        let found = refused(&text);
        assert!(found.iter().any(|mistake| mistake.contains("Rust text has no `#[cfg]`")), "{text}\n{found:#?}");
    }
    let of_tests = "#[cfg(test)]\nconst W: i32 = 3;\n#[cfg(test)]\n#[device_fn] fn far(x: i32) -> bool { x > 3 }";
    load(&[("near.rs", &masked(of_tests, "x: i32", mask))]).expect("items of tests are left out");
    let found = refused(&masked(of_tests, "x: i32", "far(at.kv_pos)"));
    assert!(found[0].contains("no function `far`"), "{found:?}");
}

#[test]
fn a_struct_has_the_derive_of_its_parameters() {
    let text = masked("", "x: i32", "at.kv_pos < self.x").replace("#[derive(Clone, VariantParams)]", "");
    let found = refused(&text);
    assert!(found[0].contains("its struct is not marked with `#[derive(VariantParams)]`"), "{found:?}");
}

#[test]
fn types_that_cpp_converts_are_refused() {
    let far = "#[device_fn] fn far(x: i32) -> i32 { x }";
    for (items, fields, mask, message) in [
        (
            "",
            "x: i32",
            "let y: i32 = 3.7; at.kv_pos < y + self.x",
            "6:66: mismatched types: expected `i32`, found `f32`",
        ),
        ("", "x: i32", "at.kv_pos < 1.5", "6:65: mismatched types: expected `i32`, found `f32`"),
        ("", "x: f32", "at.kv_pos < self.x", "6:65: mismatched types: expected `i32`, found `f32`"),
        ("", "x: i32", "self.x + at.kv_pos", "mismatched types: expected `bool`, found `i32`"),
        ("", "x: i32", "if self.x { true } else { false }", "mismatched types: expected `bool`, found `i32`"),
        ("", "x: i32", "!self.x", "mismatched types: expected `bool`, found `i32`"),
        ("", "x: i32, y: u32", "self.x < self.y", "mismatched types: expected `i32`, found `u32`"),
        ("", "x: i32", "let y: u32 = self.x; y > 3", "mismatched types: expected `u32`, found `i32`"),
        ("", "x: f32", "self.x && at.kv_pos < 3", "mismatched types: expected `bool`, found `f32`"),
        ("", "x: f32", "let a = self.x + at.kv_pos; a > 0.5", "mismatched types: expected `f32`, found `i32`"),
        ("", "x: f32", "self.x * 2 > 0.5", "mismatched types: expected `f32`, found `i32`"),
        (far, "x: f32", "far(self.x) > 3", "mismatched types: expected `i32`, found `f32`"),
        (far, "x: f32", "self.x > far(at.kv_pos)", "mismatched types: expected `f32`, found `i32`"),
        ("const W: f32 = 2.0;", "x: i32", "self.x > W", "mismatched types: expected `i32`, found `f32`"),
        ("", "#[shape(4)] t: Tensor1<f32>", "self.t[0] > at.kv_pos", "mismatched types: expected `f32`, found `i32`"),
        ("", "x: bool", "true + self.x > false", "no `+` of bools"),
        ("", "x: u32", "-self.x < self.x", "no `-` of u32"),
        ("", "x: bool", "self.x as f32 > 0.5", "a bool becomes an f32 by"),
        (
            "#[device_fn] fn cut(x: f32) -> i32 { x }",
            "x: f32",
            "cut(self.x) > 3",
            "1:38: mismatched types: expected `i32`, found `f32`",
        ),
    ] {
        let found = refused(&masked(items, fields, mask));
        assert!(found.iter().any(|mistake| mistake.contains(message)), "{mask}: {message}\n{found:#?}");
    }
}

#[test]
fn hooks_have_the_types_of_the_trait() {
    let of = |hook: &str| {
        format!(
            "#[derive(Clone, VariantParams)]\nstruct Near {{ x: i32 }}\n#[attention_variant]\n\
             impl AttentionVariant for Near {{\n    {hook}\n}}\n"
        )
    };
    for (hook, message) in [
        ("fn logits_transform(&self, logit: f32, at: LogitIndex) -> i32 { self.x }", "expected `f32`, found `i32`"),
        ("fn logits_mask(&self, at: RowIndex) -> bool { at.qo_pos > 3 }", "expected `LogitIndex`, found `RowIndex`"),
        ("fn logits_mask(&self, at: LogitIndex) { }", "`logits_mask` gives a value of type `bool`"),
        ("fn logits_mask(&self) -> bool { true }", "`logits_mask` takes `&self` and 1 more argument(s)"),
        ("fn logits_mask(at: LogitIndex) -> bool { true }", "`logits_mask` takes `&self` and 1 more argument(s)"),
        ("fn sink_logit(&self, at: RowIndex) -> bool { true }", "expected `f32`, found `bool`"),
    ] {
        let found = refused(&of(hook));
        assert!(found.iter().any(|mistake| mistake.contains(message)), "{hook}: {message}\n{found:#?}");
    }
}

#[test]
fn constants_and_conditions_have_the_values_of_rust() {
    let text = masked(
        "const MAX: i32 = 100;\nconst A: bool = (-1i32 as u32) > 0;\nconst B: i64 = (1e10f32 as i32) as i64;",
        "#[require(x < i32::MAX && (x as u32 > 5 || x == 0))] x: i32",
        "A && (at.kv_pos as i64) < B",
    );
    let variants = load(&[("near.rs", &text)]).expect("a variant");
    let mut registry = attn_core::Registry::empty();
    registry.register_all(&variants).expect("one variant");
    for (x, allowed) in [(500, true), (-3, true), (0, true), (3, false), (i32::MAX, false)] {
        let parsed = attn_core::Variant::parse_with(&format!("near(x={x})"), &registry);
        assert_eq!(parsed.is_ok(), allowed, "{x}: {parsed:?}");
    }
    let values: Vec<_> = variants[0].consts.iter().map(|link| format!("{:?}", link.value.get())).collect();
    assert_eq!(values, ["Bool(true)", "I64(2147483647)"]);
}

/// Valid hooks of every construct. Files that name what other files, modules and macros have are refused for that
/// alone.
#[test]
fn nothing_that_rustc_compiles_is_a_mistake_of_types_or_names() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/src");
    let stress = ["masks", "own_types", "subset", "signed_64"].map(|name| format!("language_stress/{name}.rs"));
    let rows = ["lists", "output", "weights", "scale", "bias", "unions", "norm"].map(|name| format!("rows/{name}.rs"));
    let catalogue =
        rows.iter().map(String::as_str).chain(["masks/variants.rs"]).map(|name| format!("catalogue/{name}"));
    let others = ["language_stress.rs", "corner_cases.rs", "tables.rs", "long_hooks.rs"].map(str::to_owned);
    let mut read = 0;
    for name in stress.into_iter().chain(catalogue).chain(others) {
        let text = std::fs::read_to_string(tests.join(&name)).expect("text");
        match load(&[(&name, &text)]) {
            Ok(_) => read += 1,
            Err(TextError::Rust(mistakes)) => {
                let expected = |message: &str| message.starts_with("the text has no ") || message.contains("no macros");
                let other: Vec<_> = mistakes.iter().filter(|mistake| !expected(&mistake.message)).collect();
                assert!(other.is_empty(), "{other:#?}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(read >= 10, "{read} files");
}
