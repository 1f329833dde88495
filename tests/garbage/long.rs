//! Long inputs take time in proportion to their length. What took quadratic time needs minutes here.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use attn_core::{ExprError, Variant, VariantSpec};

/// Items of each input.
const MANY: usize = 150_000;
/// Far above what linear time needs, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(15);

fn in_time<T>(what: &str, run: impl FnOnce() -> T) -> T {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let began = Instant::now();
    let result = run();
    assert!(began.elapsed() < PATIENCE, "{what} took {:.1} s", began.elapsed().as_secs_f64());
    result
}

fn numbered(item: impl Fn(usize) -> String) -> String {
    (0..MANY).map(item).collect::<Vec<_>>().join(", ")
}

#[test]
fn arguments() {
    let text = format!("soft_cap(cap=1, {})", numbered(|i| format!("a{i}=1")));
    let error = in_time("arguments", || Variant::parse(&text)).expect_err("none of them exists");
    assert!(matches!(&error, ExprError::Param { column: Some(_), .. }), "{error}");
    let text = format!("soft_cap({}, a7=1)", numbered(|i| format!("a{i}=1")));
    let error = in_time("arguments", || Variant::parse(&text)).expect_err("twice").to_string();
    assert!(error.contains("a7"), "{error}");
}

#[test]
fn arguments_in_json() {
    let mut params = String::from("\"cap\":1");
    (0..MANY).for_each(|i| write!(params, ",\"a{i}\":1").expect("a String takes text"));
    let text = format!(r#"[{{"name":"soft_cap","params":{{{params}}}}}]"#);
    in_time("parameters in JSON", || serde_json::from_str::<VariantSpec>(&text).expect("a spec").build())
        .expect_err("none of them exists");
}

#[test]
fn elements_of_lists() {
    let text = format!("alibi(slopes=[{}])", numbered(|i| i.to_string()));
    let variant = in_time("a list", || Variant::parse(&text)).expect("as many slopes as heads");
    assert!(in_time("its text", || variant.to_string()).len() > MANY * 5);
    let text = format!("per_head(heads=[{}], causal, full)", numbered(|i| (i % 2).to_string()));
    in_time("a table of heads", || Variant::parse(&text)).expect("two branches");
}

#[test]
fn parts_and_operands() {
    const MOST: usize = 4096;
    let text = vec!["causal"; MOST].join(" + ");
    let variant = in_time("a sum", || Variant::parse(&text)).expect("a mask many times");
    assert_eq!(in_time("its parts", || variant.parts().len()), MOST);
    let refused = |error: ExprError| assert!(matches!(error.root(), ExprError::Budget { most: MOST, .. }), "{error}");
    for text in [vec!["causal"; MANY].join(" + "), format!("or({})", vec!["causal"; MANY].join(", "))] {
        refused(in_time("operands", || Variant::parse(&text)).expect_err("too many parts"));
    }
    let text = format!("{}causal", " ".repeat(MANY));
    in_time("spaces", || Variant::parse(&text)).expect("one part");
    let text = format!("[{}]", vec![r#"{"name":"causal"}"#; MANY].join(","));
    let spec = serde_json::from_str::<VariantSpec>(&text).expect("a spec");
    refused(in_time("a list of parts", || spec.build()).expect_err("too many parts"));
}
