//! Expressions: round trips and error messages.

use crate::common::{Causal, Even, Everything, Relu, Sink, SoftCap};
use attn::lang::{
    BindError, ComposeError, Dims, Hook, LogitIndex, Normalizer, ParamError, ParamValue, Tile, TileClass,
};
use attn::{ExprError, Variant, VariantSpec};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Variant, ExprError> {
    Variant::parse_with(text, &crate::common::registry())
}

fn error(text: &str) -> ExprError {
    parse(text).expect_err(text)
}

#[test]
fn the_canonical_form() {
    for (text, canonical) in [
        ("causal + soft_cap(cap=30)", "causal + soft_cap(cap=30)"),
        ("  soft_cap ( cap = 3_0.50e0 , )+causal( )", "soft_cap(cap=30.5) + causal"),
        ("full", "full"),
        ("full + full() + causal", "causal"),
        ("sink(logits=[-inf, -0.5, 1e30, .25])", "sink(logits=[-inf, -0.5, 1e30, 0.25])"),
        (
            "everything(table=[[1], [2]], on=false)",
            "everything(rate=0.5, offset=-4, seed=7, on=false, table=[[1], [2]])",
        ),
    ] {
        let variant = parse(text).expect(text);
        assert_eq!(variant.to_string(), canonical);
        assert_eq!(parse(canonical).expect(canonical), variant);
    }
}

#[test]
fn text_and_types_give_equal_variants() {
    let typed = attn::compose!(Causal, SoftCap { cap: 30.0 });
    assert_eq!(parse("causal + soft_cap(cap=30)").expect("valid"), typed);
    assert_ne!(parse("soft_cap(cap=30) + causal").expect("valid"), typed);
    assert_eq!(Variant::from(Causal).and(SoftCap { cap: 30.0 }).expect("go together"), typed);
}

#[test]
fn syntax_errors_say_where_and_what() {
    for (text, column, expected, found) in [
        ("", 1, "the name of a variant, or `(`", "the end"),
        ("causal +", 9, "the name of a variant, or `(`", "the end"),
        ("causal soft_cap", 8, "`+` or the end", "`soft_cap`"),
        ("causal ÷", 8, "`+` or the end", "`÷`"),
        ("true", 1, "the name of a variant, or `(`", "`true`"),
        ("soft_cap(30)", 10, "the name of a parameter, or `)`", "`30`"),
        ("soft_cap(cap 30)", 14, "`=` and the value of `cap`", "`30`"),
        ("soft_cap(cap=)", 14, "a value: a number, `true`, `false`, or a list in `[ ]`", "`)`"),
        ("soft_cap(cap=30x)", 14, "a value: a number, `true`, `false`, or a list in `[ ]`", "`30x`"),
        ("soft_cap(cap=1e)", 14, "a value: a number, `true`, `false`, or a list in `[ ]`", "`1e`"),
        ("soft_cap(cap=- 3)", 14, "a value: a number, `true`, `false`, or a list in `[ ]`", "`-`"),
        ("soft_cap(cap=1e400)", 14, "a number up to 1.8e308, or `inf`", "`1e400`"),
        ("sink(logits=[0, -1e400])", 17, "a number up to 1.8e308, or `inf`", "`-1e400`"),
        ("soft_cap(cap=30", 16, "`,` or `)`", "the end"),
        ("sink(logits=[1 2])", 16, "`,` or `]`", "`2`"),
    ] {
        let ExprError::Syntax { column: c, expected: e, found: f, .. } = error(text) else { panic!("{text}") };
        assert_eq!((c, e.as_str(), f.as_str()), (column, expected, found), "{text}");
    }
    let shown = error("causal soft_cap").to_string();
    assert_eq!(shown, "at column 8: expected `+` or the end, found `soft_cap`\n  causal soft_cap\n         ^");
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let shown = error("causal + softcap(cap=3)").to_string();
    assert!(
        shown.starts_with("at column 10: no variant `softcap` (did you mean `soft_cap`?); there are: causal, even"),
        "{shown}"
    );
    assert!(matches!(error("dropout"), ExprError::UnknownVariant { nearest: None, .. }));
    let shown = error("soft_cap(cup=3)").to_string();
    assert_eq!(shown, "at column 10: in `soft_cap`: no parameter `cup` (did you mean `cap`?); there are: cap");
    let shown = error("causal(x=1)").to_string();
    assert_eq!(shown, "at column 8: in `causal`: no parameter `x`; there are: none");
    assert!(
        matches!(error("full(x=1)"), ExprError::Param { source, .. } if matches!(*source, ParamError::Unknown { .. }))
    );
}

#[test]
fn errors_of_values_have_the_column_of_the_parameter() {
    for (text, at, want) in [
        ("soft_cap(cap=0)", 10, "parameter `cap` = 0 is not allowed: `cap > 0.0` must hold"),
        ("soft_cap(cap=true)", 10, "parameter `cap` is f32; got `true`"),
        ("soft_cap", 1, "parameter `cap` (f32) has no default and was not given"),
        ("soft_cap(cap=1, cap=2)", 17, "parameter `cap` is given twice"),
        (
            "everything(on=true, seed=4294967296)",
            21,
            "parameter `seed` is u32, which cannot hold 4294967296; it holds 0 to 4294967295",
        ),
        ("sink(logits=[1, false])", 6, "parameter `logits[1]` is f32; got `false`"),
    ] {
        let ExprError::Param { column, source, .. } = error(text) else { panic!("{text}") };
        assert_eq!((column, source.to_string().as_str()), (Some(at), want), "{text}");
    }
}

#[test]
fn parts_that_do_not_compose_are_refused() {
    let two = ComposeError::TwoNormalizers { first: "relu".to_owned(), second: "relu".to_owned() };
    assert_eq!(error("relu + causal + relu"), ExprError::Compose(two.clone()));
    assert_eq!(Variant::from(Relu).and(Relu), Err(two));
    let sink = error("sink(logits=[1]) + relu");
    assert_eq!(
        sink,
        ExprError::Compose(ComposeError::SinkWithoutSoftmax { sink: "sink".to_owned(), normalizer: "relu".to_owned() })
    );
    assert!(matches!(
        Variant::from(Relu).and(Sink { logits: [1.0].into() }),
        Err(ComposeError::SinkWithoutSoftmax { .. })
    ));
    assert_eq!(attn::compose!(Causal, Relu).normalizer(), Normalizer::Plain { divide: true });
}

#[test]
fn parameters_are_set_by_name() {
    let mut variant = parse("causal + soft_cap(cap=30) + everything").expect("valid");
    variant.set("cap", ParamValue::Int(50)).expect("one part has it");
    variant.set("everything.rate", ParamValue::Float(0.25)).expect("named in full");
    assert_eq!(variant.parts().nth(1).map(ToString::to_string).as_deref(), Some("soft_cap(cap=50)"));
    let before = variant.clone();
    let error = variant.set("soft_cap.cup", ParamValue::Int(1)).expect_err("unknown");
    assert!(matches!(&error, ExprError::NoParameter { nearest: Some(n), .. } if n == "soft_cap.cap"), "{error}");
    assert!(matches!(variant.set("cap", ParamValue::Int(0)), Err(ExprError::Param { .. })));
    assert_eq!(variant, before, "an error changes nothing");
    let mut twice = parse("soft_cap(cap=1) + soft_cap(cap=2)").expect("valid");
    assert!(matches!(twice.set("cap", ParamValue::Int(3)), Err(ExprError::Ambiguous { .. })));
}

#[test]
fn tensors_may_come_after_the_name() {
    let mut variant = parse("causal + sink + soft_cap(cap=1) + sink(logits=[1, 2])").expect("valid");
    let dims = Dims { qo_heads: Some(2), ..Dims::default() };
    assert!(matches!(variant.bind(&dims).map_err(|e| e.root().clone()), Err(BindError::Unset { .. })));
    assert!(variant.missing(&Dims::default()).expect("no arithmetic")[0].shape.is_none());
    let missing = variant.missing(&dims).expect("no arithmetic");
    let [tensor] = missing.as_slice() else { panic!("{missing:?}") };
    assert_eq!((tensor.part, tensor.field.name, tensor.shape.as_deref()), (1, "logits", Some([2].as_slice())));
    let zeros = ParamValue::List(vec![ParamValue::Int(0); 2]);
    variant.set_in(1, "logits", zeros.clone()).expect("it is there");
    variant.bind(&dims).expect("nothing is missing");
    assert_eq!(variant.to_string(), "causal + sink(logits=[0, 0]) + soft_cap(cap=1) + sink(logits=[1, 2])");
    assert!(matches!(variant.set_in(0, "logits", zeros.clone()), Err(ExprError::Param { .. })));
    assert!(matches!(variant.set_in(4, "logits", zeros), Err(ExprError::NoParameter { .. })));
}

#[test]
fn binding_names_the_part() {
    let error = attn::compose!(Causal, SoftCap { cap: -1.0 }).bind(&Dims::default()).expect_err("negative");
    assert_eq!(error.to_string(), "in `soft_cap`: parameter `cap` = -1 is not allowed: `cap > 0.0` must hold");
    assert!(matches!(error.root(), BindError::Require { .. }));
    let variant = Variant::from(Everything::default());
    let bound = variant.bind(&Dims { qo_heads: Some(2), kv_heads: Some(1), ..Dims::default() }).expect("valid");
    assert_eq!(bound, variant, "computed values are not given values");
    assert_eq!(bound.to_string(), "everything(rate=0.5, offset=-4, seed=7, on=true)");
}

#[test]
fn hooks_run_over_all_parts() {
    let variant = parse("causal + even + soft_cap(cap=2) + sink(logits=[0]) + sink(logits=[0])").expect("valid");
    let at = LogitIndex { row: attn::lang::RowIndex { qo_pos: 3, ..Default::default() }, ..Default::default() };
    let mut keep = [true, true, false, true, true, true];
    variant.mask_tile(&mut keep, at);
    assert_eq!(keep, [true, false, false, false, false, false]);
    let mut logits = [0.0, 2.0];
    variant.logits_tile(&mut logits, at);
    assert_eq!(logits, [0.0, 2.0 * 1f32.tanh()]);
    assert!((variant.sink_logit(at.row) - 2f32.ln()).abs() < 1e-6);
    assert_eq!(Variant::full().sink_logit(at.row), f32::NEG_INFINITY);
    variant.weight_tile(&mut logits, 1.0, at);
    assert_eq!(logits[0], (-1f32).exp());
    let mut logits = [-1.0, 3.0];
    Variant::from(Relu).weight_tile(&mut logits, 0.0, at);
    assert_eq!(logits, [0.0, 3.0]);
    assert!(variant.has(Hook::SinkLogit) && !variant.has(Hook::KeyTransform));
}

#[test]
fn the_class_of_a_tile_combines_all_masks() {
    let newer = Tile { kv_pos_min: 5, kv_pos_max: 6, ..Tile::default() };
    let class = |text| parse(text).expect(text).tile_class(newer);
    assert_eq!(class("full"), TileClass::Full);
    assert_eq!(class("soft_cap(cap=1)"), TileClass::Full);
    assert_eq!(class("even"), TileClass::Partial);
    assert_eq!(class("even + causal"), TileClass::Skip);
}

#[test]
fn serde_takes_a_text_or_parts() {
    let want = parse("causal + soft_cap(cap=30)").expect("valid");
    let registry = crate::common::registry();
    for json in [
        r#""causal + soft_cap(cap=30)""#,
        r#"[{"name": "causal"}, {"name": "soft_cap", "params": {"cap": 30}}]"#,
        r#"[{"name": "full"}, {"name": "causal", "params": {}}, {"name": "soft_cap", "params": {"cap": 30.0}}]"#,
    ] {
        let spec: VariantSpec = serde_json::from_str(json).expect(json);
        assert_eq!(spec.build_with(&registry).expect(json), want);
    }
    let json = serde_json::to_string(&VariantSpec::from(&want)).expect("plain data");
    assert_eq!(json, r#"[{"name":"causal"},{"name":"soft_cap","params":{"cap":30.0}}]"#);
    let build = |json: &str| serde_json::from_str::<VariantSpec>(json).expect(json).build_with(&registry);
    let twice = build(r#"[{"name": "soft_cap", "params": {"cap": 1, "cap": 2}}]"#);
    let twice = twice.expect_err("cap twice");
    assert!(
        matches!(twice.root(), ExprError::Param { source, .. } if matches!(**source, ParamError::Twice { .. })),
        "{twice}"
    );
    assert_eq!(twice.to_string(), "at `[0]`: in `soft_cap`: parameter `cap` is given twice");
    assert!(matches!(build(r#"[{"name": "relu"}, {"name": "relu"}]"#), Err(ExprError::Compose(_))));
    for (json, words) in [
        (r#"[{"nam": "relu"}]"#, ["`nam`", "`name`"]),
        (r#"[{"name": "relu", "params": {"cap": "x"}}]"#, ["\"x\"", "a number"]),
        (r#"[{"name": "relu", "params": {"cap": [null]}}]"#, ["null", "a number"]),
        ("3", ["`3`", "an expression"]),
    ] {
        let error = serde_json::from_str::<VariantSpec>(json).expect_err(json).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let large: attn::lang::ParamValue = serde_json::from_str("18446744073709551615").expect("a number");
    assert_eq!(large, attn::lang::ParamValue::Float(u64::MAX as f64));
}

fn any_part() -> impl Strategy<Value = Variant> {
    let number = prop_oneof![any::<f32>().prop_filter("comparable", |x| !x.is_nan()), Just(f32::NEG_INFINITY)];
    let list = proptest::collection::vec(number.clone(), 1..4);
    prop_oneof![
        Just(Variant::from(Causal)),
        Just(Variant::from(Even)),
        (f32::MIN_POSITIVE..f32::MAX).prop_map(|cap| SoftCap { cap }.into()),
        list.prop_map(|logits| Sink { logits: logits.into() }.into()),
        (number, any::<i32>(), any::<u32>(), any::<bool>(), proptest::collection::vec(any::<i32>(), 6)).prop_map(
            |(rate, offset, seed, on, table)| {
                let table = attn::lang::Tensor2::new(table, [2, 3]).expect("six");
                Everything { rate, offset: offset.min(99), seed, on, table, ..Everything::default() }.into()
            }
        ),
    ]
}

proptest! {
    #[test]
    fn expressions_round_trip(parts in proptest::collection::vec(any_part(), 0..5)) {
        let variant = parts.into_iter().try_fold(Variant::full(), Variant::and).expect("softmax all");
        let text = variant.to_string();
        prop_assert_eq!(parse(&text).expect(&text), variant);
    }

    #[test]
    fn no_text_panics(text in "[a-z_+(),=\\[\\]0-9.eE \\-ß∞]{0,40}") {
        if let Ok(variant) = parse(&text) {
            prop_assert!(parse(&variant.to_string()).is_ok());
        }
    }

    #[test]
    fn no_arguments_panic(args in "[a-z=\\[\\],0-9.e\\-+_ ]{0,30}") {
        let _ = parse(&format!("everything({args})"));
        let _ = parse(&format!("sink(logits={args})"));
    }
}

#[test]
fn a_mistake_far_to_the_right_has_a_short_message() {
    for text in [
        " ".repeat(65_535),
        " ".repeat(1_000_000),
        format!("sink(logits=[{}]) + )", vec!["1"; 40_000].join(",")),
        format!("{}\u{e9}", "causal + ".repeat(4_000)),
    ] {
        let error = parse(&text).expect_err("no expression").to_string();
        assert!(error.len() < 1000, "{} bytes", error.len());
    }
    let said = parse(&format!("{})", " ".repeat(70_000))).expect_err("a bracket").to_string();
    assert!(said.contains("at column 70001: expected the name of a variant") && said.ends_with('^'), "{said}");
}

#[test]
fn an_expression_has_a_budget() {
    let budget = |text: &str| match parse(text) {
        Err(ExprError::Budget { budget, found, most, .. }) => (budget, found, most),
        other => panic!("{other:?}"),
    };
    assert_eq!(budget(&"a".repeat(1_000_000)), ("letters in a name", 1_000_000, 128));
    assert_eq!(budget(&format!("full({}=1)", "a".repeat(30_000))).0, "letters in a name");
    assert_eq!(budget(&" ".repeat((4 << 20) + 1)), ("bytes", (4 << 20) + 1, 4 << 20));
    assert_eq!(budget(&vec!["full"; 5000].join(" + ")), ("parts", 4097, 4096));
    assert_eq!(budget(&format!("or({})", vec!["full"; 100_000].join(", "))).0, "parts");
    let said = parse(&"a".repeat(30_000)).expect_err("a long name").to_string();
    assert!(said.contains("30000 letters in a name") && said.contains("at most 128"), "{said}");
}
