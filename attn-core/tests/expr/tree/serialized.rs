//! The JSON form of combinators: what it reads and writes, and that errors have a path.

use attn::{ExprError, VariantSpec};

use crate::tree::{registry, valid};

#[test]
fn serde_takes_combinators() {
    for (json, text) in [
        (r#"[{"or": ["causal", [{"name": "even"}]]}]"#, "or(causal, even)"),
        (r#"{"not": {"name": "causal"}}"#, "not(causal)"),
        (
            r#"[{"remap": {"map": {"name": "blocks", "params": {"size": 4}}, "inner": "causal"}}, {"name": "even"}]"#,
            "remap(blocks(size=4), causal) + even",
        ),
        (
            r#"[{"per_head": {"heads": [0, 1], "branches": ["causal", {"or": ["even", "full"]}]}}]"#,
            "per_head(heads=[0, 1], causal, or(even, full))",
        ),
        (r#"[{"union": ["causal", "even", "full"]}]"#, "union(causal, even, full)"),
    ] {
        let spec: VariantSpec = serde_json::from_str(json).expect(json);
        let variant = spec.build_with(&registry()).expect(json);
        assert_eq!(variant, valid(text));
        let written = serde_json::to_string(&VariantSpec::from(&variant)).expect("plain data");
        let again: VariantSpec = serde_json::from_str(&written).expect(&written);
        assert_eq!(again.build_with(&registry()).expect(&written), variant, "{written}");
    }
}

#[test]
fn serde_errors_have_a_path() {
    let build = |json: &str| serde_json::from_str::<VariantSpec>(json).expect(json).build_with(&registry());
    for (json, want) in [
        (
            r#"["#.to_owned() + r#"{"name": "causal"}, {"name": "evn"}]"#,
            "at `[1]`: no variant `evn` (did you mean `even`?)",
        ),
        (
            r#"[{"name": "causal"}, {"or": ["even", [{"not": {"name": "soft_cap"}}]]}]"#.to_owned(),
            "at `[1].or[1][0].not[0]`: in `soft_cap`: parameter `cap` (f32) has no default",
        ),
        (r#"[{"or": ["even", "causal +"]}]"#.to_owned(), "at `[0].or[1]`: at column 9: expected the name of a variant"),
        (r#"[{"or": ["even"]}]"#.to_owned(), "at `[0]`: `or` takes two masks or more; here are 1"),
        (
            r#"[{"remap": {"map": {"name": "full"}, "inner": "causal"}}]"#.to_owned(),
            "at `[0].remap.map`: `full` rewrites no position",
        ),
        (
            r#"[{"per_head": {"heads": [0], "branches": ["causl"]}}]"#.to_owned(),
            "at `[0].per_head.branches[0]`: at column 1: no variant `causl`",
        ),
    ] {
        let error = build(&json).expect_err(&json).to_string();
        assert!(error.starts_with(want), "{error}");
    }
    for (json, words) in [
        (r#"[{"nor": []}]"#, ["`nor`", "`union`"]),
        (r#"[{"or": ["causal"], "not": "even"}]"#, ["one combinator", "two elements"]),
        (r#"[{"name": "causal", "not": "even"}]"#, ["one combinator", "two elements"]),
        (r#"[{"params": {}}]"#, ["missing", "`name`"]),
        (r#"[{"per_head": {"heads": ["x"], "branches": []}}]"#, ["\"x\"", "i32"]),
        (r#"[3]"#, ["`3`", "`per_head`"]),
    ] {
        let error = serde_json::from_str::<VariantSpec>(json).expect_err(json).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let deep = r#"{"not": "#.repeat(30) + r#""causal""# + &"}".repeat(30);
    assert!(matches!(build(&deep).map_err(|e| e.root().clone()), Err(ExprError::Depth { most: 24 })));
}
