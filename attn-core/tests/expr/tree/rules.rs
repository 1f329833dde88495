//! Rules of composition, and of binding what is composed.

use attn::expr::Node;
use attn::lang::{BindError, ComposeError, Dims, Hook, Normalizer, Tensor1};
use attn::{ExprError, Variant, compose};

use crate::common::{Causal, Relu, Sink, SoftCap};
use crate::tree::{Blocks, at, parse, refused, valid};

#[test]
fn parts_that_do_not_compose_are_refused_by_name() {
    for (text, words) in [
        ("or(causal, soft_cap(cap=1))", ["`soft_cap` has `logits_transform`", "or(..) + soft_cap"]),
        ("not(sink(logits=[1]))", ["`not` takes masks alone", "`sink_logit`"]),
        ("or(causal, remap(blocks(size=2), relu))", ["`or` takes masks alone", "`relu` has `NORMALIZER`"]),
        ("remap(causal, even)", ["`causal` rewrites no position", "the map comes first"]),
        ("union(causal + sink(logits=[1]), even)", ["`sink_logit` is for all keys", "union(..) + sink"]),
        ("union(per_head(heads=[0], twice), even)", ["`twice`", "`output_transform`"]),
        ("union(relu, causal)", ["`relu`", "`NORMALIZER`"]),
        ("not(union(causal, even))", ["`union` cannot stand inside `not`", "outside"]),
        ("union(union(causal, even) + causal, even)", ["`union` cannot stand inside `union`", "outside"]),
        ("union(causal, even) + union(causal, even)", ["takes one `union`", "each pair"]),
        ("remap(blocks(size=1), first_blocks(blocks=1))", ["`first_blocks` has a key list", "`remap`"]),
        ("or(causal, first_blocks(blocks=1))", ["`first_blocks` has a key list", "`or`"]),
        ("first_blocks(blocks=1) + first_blocks(blocks=2)", ["both have a key list", "one of them"]),
        ("first_blocks(blocks=1) + union(causal, even)", ["`first_blocks` has a key list", "`union`"]),
        ("per_head(heads=[0, 1], relu, causal)", ["branches 0 and 1", "into every branch"]),
        ("per_head(heads=[0], relu) + relu", ["both change the normaliser", "one of them"]),
        ("per_head(heads=[0, 1], causal, sink(logits=[1, 1])) + relu", ["`sink` adds a sink", "`relu`"]),
        ("per_head(heads=[0, 2], causal, even)", ["`heads[1]` is 2", "there are 2 branches"]),
        ("per_head(heads=[0, -1], causal, even)", ["`heads[1]` is -1", "numbered from 0"]),
        ("per_head(heads=[0])", ["at least one branch", "per_head(heads="]),
        ("per_head(heads=[], causal)", ["the branch of each query head", "per_head(heads="]),
    ] {
        let shown = refused(text);
        assert!(words.iter().all(|word| shown.contains(word)), "{text}: {shown}");
        assert!(matches!(parse(text), Err(ExprError::Compose(_))), "{text}");
    }
    // composed by types, it is refused when it is bound
    let late = Variant::from(Node::Not(SoftCap { cap: 1.0 }.into()));
    assert!(matches!(late.bind(&Dims::default()), Err(BindError::Compose(ComposeError::NotAMask { .. }))));
    assert!(matches!(Variant::from(Causal).and(late), Err(ComposeError::NotAMask { .. })));
}

#[test]
fn binding_checks_heads() {
    let dims = |qo_heads, kv_heads| Dims { qo_heads: Some(qo_heads), kv_heads: Some(kv_heads), ..Dims::default() };
    let masks = valid("per_head(heads=[0, 1, 1, 0], causal, even)");
    masks.bind(&dims(4, 1)).expect("masks may differ inside a group");
    let error = masks.bind(&dims(8, 2)).expect_err("eight heads");
    assert_eq!(
        error.to_string(),
        "in `per_head`: tensor parameter `heads` has shape [4]; `#[shape(qo_heads)]` is [8] here"
    );
    let keys = valid("per_head(heads=[0, 1, 1, 1], add_position, full)");
    keys.bind(&dims(4, 4)).expect("a KV head each");
    let error = keys.bind(&dims(4, 2)).expect_err("the first group is split");
    let BindError::Compose(ComposeError::SplitGroup { first, second, kv_head, part }) = &error else {
        panic!("{error}")
    };
    assert_eq!((*first, *second, *kv_head, part.as_str()), (0, 1, 0, "add_position"));
}

#[test]
fn parameters_inside_combinators_are_set_and_bound() {
    let mut variant = valid("or(causal, between(begin=0, end=4)) + remap(blocks(size=4), soft_cap(cap=1))");
    let names: Vec<_> = variant.parts().map(|part| part.desc().name).collect();
    assert_eq!(names, ["causal", "between", "blocks", "soft_cap"]);
    variant.set("end", attn::lang::ParamValue::Int(5)).expect("one part has it");
    variant.set_in(2, "size", attn::lang::ParamValue::Int(8)).expect("the map");
    assert_eq!(variant.to_string(), "or(causal, between(begin=0, end=5)) + remap(blocks(size=8), soft_cap(cap=1))");
    assert!(variant.set_in(4, "size", attn::lang::ParamValue::Int(8)).is_err());
    let error = compose!(remap(Blocks { size: 0 }, Causal)).bind(&Dims::default()).expect_err("a condition inside");
    assert!(error.to_string().starts_with("in `blocks`: parameter `size` = 0"), "{error}");
    let unset = Variant::from(Node::per_head([0], vec![Sink { logits: Tensor1::unset() }.into()]));
    let missing = unset.missing(&Dims { qo_heads: Some(1), ..Dims::default() }).expect("no arithmetic");
    assert_eq!((missing.len(), missing[0].part, missing[0].field.name), (1, 0, "logits"));
}

#[test]
fn hooks_that_do_not_run_are_not_reported() {
    let variant = valid("not(causal)");
    assert!(variant.has(Hook::LogitsMask) && !variant.has(Hook::LogitsTransform));
    assert!(valid("not(full)").has(Hook::LogitsMask));
    assert!(valid("union(full, full)").has(Hook::LogitsMask));
    assert_eq!(valid("per_head(heads=[0, 1], relu, relu)").normalizer(), Normalizer::Plain { divide: true });
    assert_eq!(valid("remap(blocks(size=1), relu)").normalizer(), Normalizer::Plain { divide: true });
    let (mut relu, mut inner) = ([-1.0, 3.0], [-1.0, 3.0]);
    Variant::from(Relu).weight_tile(&mut relu, 0.0, at(0, 0));
    valid("remap(blocks(size=1), relu)").weight_tile(&mut inner, 0.0, at(0, 0));
    assert_eq!(relu, inner);
    let mut sums = [9.0, 9.0];
    Variant::full().denominator_tile(&mut sums, &[1.0, 2.0], 0.0, at(0, 0));
    assert_eq!(sums, [1.0, 2.0]);
    assert_eq!(valid("causal").max_floor(), f32::NEG_INFINITY);
}
