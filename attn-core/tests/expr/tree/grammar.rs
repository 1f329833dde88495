//! The grammar: text, types, and what syntax errors say.

use attn::expr::compose::{And, Chain, Not, Or, Part, Remap, Union, per_head};
use attn::{ExprError, Registry, compose};

use crate::common::{Causal, Even, Relu, SoftCap};
use crate::tree::{AddPosition, Blocks, Twice, parse, refused, valid};

#[test]
fn the_canonical_form() {
    for (text, canonical) in [
        ("or(causal, even)", "or(causal, even)"),
        (" or ( causal , ( even ) , ) ", "or(causal, even)"),
        ("or(or(causal, even), even, or(causal, causal))", "or(causal, even, even, causal, causal)"),
        ("or(causal + even, full)", "or(causal + even, full)"),
        ("not(not(causal))", "not(not(causal))"),
        ("(causal + (soft_cap(cap=1))) + even", "causal + soft_cap(cap=1) + even"),
        ("remap(blocks(size=4), causal + even)", "remap(blocks(size=4), causal + even)"),
        ("per_head(causal, heads=[0,1,0], even)", "per_head(heads=[0, 1, 0], causal, even)"),
        ("union(causal, union(even, full)) + soft_cap(cap=2)", "union(causal, even, full) + soft_cap(cap=2)"),
        ("not(full) + even", "not(full) + even"),
    ] {
        let variant = valid(text);
        assert_eq!(variant.to_string(), canonical);
        assert_eq!(valid(canonical), variant);
    }
    assert_ne!(valid("or(causal, even)"), valid("or(even, causal)"));
    assert_ne!(valid("per_head(heads=[0, 1], causal, even)"), valid("per_head(heads=[1, 0], causal, even)"));
}

#[test]
fn text_and_types_give_equal_variants() {
    let cap = SoftCap { cap: 2.0 };
    let blocks = Blocks { size: 4 };
    for (typed, text) in [
        (compose!(or(Causal, Even), cap), "or(causal, even) + soft_cap(cap=2)"),
        (compose!(or(Causal + Even, Even, not(Causal))), "or(causal + even, even, not(causal))"),
        (compose!(remap(blocks, Causal + cap)), "remap(blocks(size=4), causal + soft_cap(cap=2))"),
        (compose!(per_head([0, 1], Causal + cap, Even)), "per_head(heads=[0, 1], causal + soft_cap(cap=2), even)"),
        (compose!(union(Causal + AddPosition, Even, cap)), "union(causal + add_position, even, soft_cap(cap=2))"),
        (compose!(not(per_head([0, 1], Causal, Even))), "not(per_head(heads=[0, 1], causal, even))"),
        (compose!(per_head([1, 0], Relu, Relu) + Causal), "per_head(heads=[1, 0], relu, relu) + causal"),
    ] {
        assert_eq!(typed, valid(text));
        assert_eq!(typed.to_string(), text);
    }
    let by_hand = Union(Or(Causal, Not(Even)), Remap(blocks, And(Causal, cap))).into_variant();
    let text = "union(or(causal, not(even)), remap(blocks(size=4), causal + soft_cap(cap=2)))";
    assert_eq!(by_hand, valid(text));
    let chain = Chain::new().with(per_head([0, 0, 1]).branch(Causal).branch(Twice)).finish();
    assert_eq!(chain, valid("per_head(heads=[0, 0, 1], causal, twice)"));
}

#[test]
fn syntax_errors_say_where_and_what() {
    const ITEM: &str = "the name of a variant, or `(`";
    for (text, column, expected, found) in [
        ("or", 3, "`(` and the operands of `or`", "the end"),
        ("or()", 4, ITEM, "`)`"),
        ("or(causal)", 10, "`+`, or `,` and another operand", "`)`"),
        ("or(causal, even", 16, "`+`, `,` or `)`", "the end"),
        ("or(causal even)", 11, "`+`, or `,` and another operand", "`even`"),
        ("not(causal, even)", 13, "`+` or `)`", "`even`"),
        ("(causal, even)", 8, "`+` or `)`", "`,`"),
        ("(causal", 8, "`+` or `)`", "the end"),
        ("causal)", 7, "`+` or the end", "`)`"),
        ("remap(or(causal, even), causal)", 7, "the name of a variant that rewrites positions", "`or`"),
        ("remap(blocks(size=1))", 21, "`,` and what sees the positions", "`)`"),
        ("per_head(heads=[0] causal)", 20, "`+`, `,` or `)`", "`causal`"),
        ("true + causal", 1, ITEM, "`true`"),
    ] {
        let error = parse(text).expect_err(text);
        let ExprError::Syntax { column: c, expected: e, found: f, .. } = &error else { panic!("{text}: {error}") };
        assert_eq!((*c, e.as_str(), f.as_str()), (column, expected, found), "{text}");
    }
    let deep = "not(".repeat(25) + "causal" + &")".repeat(25);
    assert!(refused(&deep).contains("at most 24 combinators"), "{}", refused(&deep));
    assert!(parse(&("(".repeat(1_000_000))).is_err(), "no stack is long enough");
    valid(&("not(".repeat(24) + "causal" + &")".repeat(24)));
}

#[test]
fn errors_of_names_and_heads_have_their_column() {
    for (text, want) in [
        ("or(causal, evn)", "at column 12: no variant `evn` (did you mean `even`?)"),
        ("nott(causal)", "at column 1: no variant `nott` (did you mean `not`?)"),
        ("or(causal, even + soft_cap(cap=0))", "at column 28: in `soft_cap`: parameter `cap` = 0 is not allowed"),
        ("per_head(causal, even)", "at column 1: in `per_head`: parameter `heads` (a list of i32) has no default"),
        ("per_head(head=[0], causal)", "at column 10: in `per_head`: no parameter `head` (did you mean `heads`?)"),
        ("per_head(heads=[0], heads=[1], causal)", "at column 21: in `per_head`: parameter `heads` is given twice"),
        ("per_head(heads=3, causal)", "at column 10: in `per_head`: parameter `heads` is a list of i32; got `3`"),
        ("per_head(heads=[0, 0.5], causal)", "at column 10: in `per_head`: parameter `heads[1]` is i32; got `0.5`"),
    ] {
        assert!(refused(text).starts_with(want), "{}", refused(text));
    }
    assert!(refused("dropout").contains("there are: add_position, between, blocks, causal"), "{}", refused("dropout"));
}

#[test]
fn the_names_of_combinators_are_reserved() {
    for name in ["or", "not", "remap", "per_head", "union"] {
        let desc = <Causal as attn::lang::Described>::desc();
        let renamed = Box::leak(Box::new(attn::lang::VariantDesc { name, ..*desc }));
        let error = Registry::empty().register(renamed).expect_err("a word of the grammar");
        assert!(error.to_string().contains("no word of the grammar"), "{error}");
    }
}
