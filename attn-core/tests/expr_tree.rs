//! Combinators in expressions: grammar, rules of composition, and evaluation.

extern crate attn_core as attn;

#[path = "common/variants.rs"]
mod common;

use attn::expr::Node;
use attn::lang::{
    AttentionVariant, BindError, ComposeError, Dims, Hook, KvIndex, LogitIndex, Normalizer, QueryTile, Row, RowIndex,
    RowState, Tensor1, Tile, TileClass,
};
use attn::{ExprError, Registry, Variant, VariantParams, VariantSpec, attention_variant, compose};
use common::{Causal, Even, Relu, Sink, SoftCap};
use proptest::prelude::*;

/// Positions count from the start of their block.
#[derive(Clone, Copy, VariantParams)]
struct Blocks {
    #[require(size > 0)]
    size: i32,
}

#[attention_variant(name = "blocks")]
impl AttentionVariant for Blocks {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos / self.size == at.kv_pos / self.size
    }
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos % self.size
    }
    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        at.kv_pos % self.size
    }
}

/// Adds its position to every query and key.
#[derive(Clone, Copy, VariantParams)]
struct AddPosition;

#[attention_variant(name = "add_position")]
impl AttentionVariant for AddPosition {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.map(|_d, x| x + at.qo_pos as f32);
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_d, x| x + at.kv_pos as f32);
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + (at.qo_pos - at.kv_pos) as f32
    }
}

/// A list of the first blocks of two keys, for each query on its own.
#[derive(Clone, Copy, VariantParams)]
struct FirstBlocks {
    blocks: i32,
}

#[attention_variant(name = "first_blocks")]
impl AttentionVariant for FirstBlocks {
    fn kv_list_len(&self, _at: RowIndex) -> i32 {
        self.blocks
    }
    fn kv_list_block(&self, _at: RowIndex, n: i32) -> i32 {
        self.blocks - 1 - n
    }
    fn kv_list_block_size(&self) -> i32 {
        2
    }
}

/// A mask of the keys `begin..end`, with a `kv_range`.
#[derive(Clone, Copy, VariantParams)]
struct Between {
    begin: i32,
    end: i32,
}

#[attention_variant(name = "between")]
impl AttentionVariant for Between {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.begin <= at.kv_pos && at.kv_pos < self.end
    }
    fn kv_range(&self, _tile: QueryTile) -> (i32, i32) {
        (self.begin, self.end)
    }
}

/// Doubles the output.
#[derive(Clone, Copy, VariantParams)]
struct Twice;

#[attention_variant(name = "twice")]
impl AttentionVariant for Twice {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, _at: RowIndex) {
        o.map(|_d, x| 2.0 * x);
    }
}

fn registry() -> Registry {
    let mut registry = common::registry();
    registry.register_all(attn::variants![Blocks, AddPosition, FirstBlocks, Between, Twice]).expect("names differ");
    registry
}

fn parse(text: &str) -> Result<Variant, ExprError> {
    Variant::parse_with(text, &registry())
}

fn valid(text: &str) -> Variant {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

fn at(qo_pos: i32, kv_pos: i32) -> LogitIndex {
    LogitIndex { row: RowIndex { qo_pos, ..RowIndex::default() }, kv_pos, kv_token: kv_pos, kv_slot: 0 }
}

/// The keys `0..keys` that a query attends to.
fn keys_of(variant: &Variant, row: RowIndex, keys: usize) -> Vec<usize> {
    let mut keep = vec![true; keys];
    variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: 0, kv_slot: 0 });
    (0..keys).filter(|&i| keep[i]).collect()
}

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
    use attn::expr::compose::{And, Chain, Not, Or, Part, Remap, Union, per_head};
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
fn or_not_and_remap_combine_masks() {
    let row = at(5, 0).row;
    for (text, want) in [
        ("or(causal, even)", vec![0, 1, 2, 3, 4, 5, 6, 8]),
        ("not(causal)", vec![6, 7, 8, 9]),
        ("not(or(causal, even))", vec![7, 9]),
        ("or(causal + even, between(begin=8, end=10))", vec![0, 2, 4, 8, 9]),
        ("not(full)", vec![]),
        ("or(not(full), full)", (0..10).collect()),
        ("remap(blocks(size=4), even)", vec![4, 6]),
        ("remap(blocks(size=4), causal)", vec![4, 5]),
        ("remap(blocks(size=3), not(causal))", vec![]),
        ("union(even, causal)", vec![0, 1, 2, 3, 4, 5, 6, 8]),
        ("or(causal, even) + not(between(begin=2, end=4))", vec![0, 1, 4, 5, 6, 8]),
    ] {
        assert_eq!(keys_of(&valid(text), row, 10), want, "{text}");
    }
    let heads = valid("per_head(heads=[0, 1], causal, even)");
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 0, ..row }, 8), [0, 1, 2, 3, 4, 5]);
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 1, ..row }, 8), [0, 2, 4, 6]);
    assert_eq!(keys_of(&heads, RowIndex { qo_head: 9, ..row }, 8), [0, 2, 4, 6], "clamped");
    // longer than a chunk
    let long = keys_of(&valid("not(even)"), row, 1000);
    assert_eq!(long, (0..500).map(|i| 2 * i + 1).collect::<Vec<_>>());
    assert_eq!(keys_of(&valid("or(even, between(begin=300, end=302))"), row, 400).len(), 201);
}

#[test]
fn a_map_changes_the_positions_of_inner_parts_only() {
    let variant = valid("add_position + remap(blocks(size=4), add_position + soft_cap(cap=1000000))");
    let mut q = [0.0];
    variant.query_row(&mut q, at(6, 0).row);
    assert_eq!(q, [6.0 + 2.0]);
    let mut k = [0.0];
    variant.key_row(&mut k, KvIndex { kv_pos: 7, ..KvIndex::default() });
    assert_eq!(k, [7.0 + 3.0]);
    let mut logits = [0.0; 6];
    valid("remap(blocks(size=4), add_position)").logits_tile(&mut logits, at(6, 2));
    // the query has index 2 in its block; keys 2, 3 | 4, 5, 6, 7 are in two blocks
    assert_eq!(logits, [0.0, -1.0, 2.0, 1.0, 0.0, -1.0]);
}

#[test]
fn per_head_selects_every_hook() {
    let text = "per_head(heads=[0, 0, 1, 1], add_position + sink(logits=[0, 1, 2, 3]), twice)";
    let dims = Dims { qo_heads: Some(4), kv_heads: Some(2), ..Dims::default() };
    let variant = valid(text).bind(&dims).expect("two heads for each KV head");
    let row = |qo_head| RowIndex { qo_head, kv_head: qo_head / 2, qo_pos: 3, ..RowIndex::default() };
    let of = |head, hook: &dyn Fn(&Variant, &mut [f32], RowIndex)| {
        let mut x = [1.0];
        hook(&variant, &mut x, row(head));
        x[0]
    };
    let query = |v: &Variant, x: &mut [f32], at| v.query_row(x, at);
    let key = |v: &Variant, x: &mut [f32], at: RowIndex| {
        v.key_row(x, KvIndex { kv_pos: 5, kv_head: at.kv_head, ..KvIndex::default() });
    };
    let output =
        |v: &Variant, x: &mut [f32], at| v.output_row(x, RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 }, at);
    assert_eq!([of(0, &query), of(2, &query)], [4.0, 1.0]);
    assert_eq!([of(1, &key), of(3, &key)], [6.0, 1.0]);
    assert_eq!([of(1, &output), of(3, &output)], [1.0, 2.0]);
    assert_eq!([variant.sink_logit(row(1)), variant.sink_logit(row(2))], [1.0, f32::NEG_INFINITY]);
    assert!(variant.has(Hook::SinkLogit) && variant.has(Hook::OutputTransform) && !variant.has(Hook::LogitsMask));
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

#[test]
fn a_union_splits_into_disjoint_branches() {
    let variant = valid("causal + union(even + add_position, between(begin=2, end=6), full) + soft_cap(cap=9)");
    let branches = variant.branches();
    assert_eq!(branches.len(), 3);
    assert!(variant.has_union() && branches.iter().all(|branch| !branch.has_union()));
    let row = at(7, 0).row;
    assert_eq!(keys_of(&branches[0], row, 10), [0, 2, 4, 6]);
    assert_eq!(keys_of(&branches[1], row, 10), [3, 5]);
    assert_eq!(keys_of(&branches[2], row, 10), [1, 7]);
    assert_eq!(keys_of(&variant, row, 10), [0, 1, 2, 3, 4, 5, 6, 7]);
    let keys = branches.iter().map(|branch| branch.has(Hook::KeyTransform)).collect::<Vec<_>>();
    assert_eq!(keys, [true, false, false], "a branch does not have the transforms of an earlier one");
    assert!(branches.iter().all(|branch| branch.has(Hook::LogitsTransform)));
    assert_eq!(valid("causal").branches(), [valid("causal")]);
    branches[2].bind(&Dims::default()).expect("a branch may be bound again");
}

#[test]
fn a_key_list_is_found_at_the_top_level() {
    let variant = valid("causal + first_blocks(blocks=3)");
    let row = RowIndex::default();
    assert_eq!(variant.kv_list_sizes(), Some((2, 1)));
    assert_eq!((variant.kv_list_len(row), variant.kv_list_block(row, 0)), (3, 2));
    assert!(variant.has_kv_list());
    let none = valid("causal");
    assert_eq!((none.has_kv_list(), none.kv_list_sizes(), none.kv_list_len(row)), (false, None, 0));
}

#[test]
fn key_ranges_combine_along_the_tree() {
    let (near, far) = ("between(begin=2, end=6)", "between(begin=4, end=9)");
    let all = (0, i32::MAX);
    for (text, want) in [
        (format!("{near} + {far}"), (4, 6)),
        (format!("per_head(heads=[0, 1], {near}, {far})"), (2, 9)),
        (format!("union({near}, {far})"), (2, 9)),
        (format!("not({near}) + {far}"), (4, 9)),
        (format!("or({near}, {far})"), all),
        (format!("remap(blocks(size=4), {near})"), all),
    ] {
        let tile = QueryTile { qo_head_max: 1, ..QueryTile::default() };
        assert_eq!(valid(&text).kv_range(tile), want, "{text}");
    }
    let tile = QueryTile { qo_head_min: 1, qo_head_max: 1, ..QueryTile::default() };
    assert_eq!(valid(&format!("per_head(heads=[0, 1], {near}, {far})")).kv_range(tile), (4, 9));
}

#[test]
fn classes_are_sound_for_every_key_of_a_tile() {
    let mut proven = 0;
    for text in [
        "causal",
        "not(causal)",
        "or(causal, between(begin=3, end=9))",
        "or(causal, not(causal))",
        "not(or(causal, between(begin=3, end=9)))",
        "between(begin=3, end=9) + not(even)",
        "remap(blocks(size=4), causal)",
        "remap(blocks(size=4), soft_cap(cap=1))",
        "per_head(heads=[0, 0, 1, 1], causal, not(causal))",
        "per_head(heads=[0, 0, 1, 1], causal, causal + even)",
        "union(causal, between(begin=8, end=12))",
        "not(full)",
    ] {
        let variant = valid(text);
        for (q, k, head) in (0..12).flat_map(|q| (0..12).flat_map(move |k| (0..4).map(move |h| (q, k, h)))) {
            let rows = QueryTile {
                qo_pos_min: q,
                qo_pos_max: q + 2,
                qo_row_min: q,
                qo_row_max: q + 2,
                qo_head_min: head,
                qo_head_max: (head + 1).min(3),
                ..QueryTile::default()
            };
            let tile = Tile { rows, kv_pos_min: k, kv_pos_max: k + 3, kv_token_min: k, kv_token_max: k + 3 };
            let class = variant.tile_class(tile);
            proven += usize::from(class != TileClass::Partial);
            for (qo_pos, qo_head) in (q..=q + 2).flat_map(|q| [(q, head), (q, (head + 1).min(3))]) {
                let mut keep = [true; 4];
                let row = RowIndex { qo_pos, qo_row: qo_pos, qo_head, ..RowIndex::default() };
                variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: k, kv_token: k, kv_slot: 0 });
                match class {
                    TileClass::Skip => assert_eq!(keep, [false; 4], "{text}: {tile:?}"),
                    TileClass::Full => assert_eq!(keep, [true; 4], "{text}: {tile:?}"),
                    TileClass::Partial => {}
                }
            }
        }
    }
    assert!(proven > 500, "{proven}");
    assert_eq!(
        Variant::from(Node::or(vec![Even.into(), Variant::full()])).tile_class(Tile::default()),
        TileClass::Full
    );
}

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

/// An arbitrary mask.
fn any_mask() -> impl Strategy<Value = Variant> {
    let leaf = prop_oneof![
        Just(Variant::from(Causal)),
        Just(Variant::from(Even)),
        Just(Variant::full()),
        (0..9, 0..9).prop_map(|(begin, end)| Between { begin, end }.into()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let several = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several.clone().prop_map(|masks| Node::or(masks).into()),
            inner.clone().prop_map(|mask| Node::Not(mask).into()),
            several.prop_map(|masks| masks.into_iter().fold(Variant::full(), |a, b| a.and(b).expect("masks"))),
            (1..5, inner.clone()).prop_map(|(size, mask)| compose!(remap(Blocks { size }, Same(mask)))),
            (proptest::collection::vec(0..2, 3), inner.clone(), inner).prop_map(|(heads, a, b)| Node::per_head(
                heads,
                vec![a, b]
            )
            .into()),
        ]
    })
}

/// A mask that is a `Variant` already, as an operand of `compose!`.
struct Same(Variant);

impl attn::expr::compose::Part for Same {
    type Normalizer = attn::expr::compose::Keeps;
    type Sink = attn::expr::compose::NoSink;
    type Position = attn::expr::compose::Mask;
    fn into_variant(self) -> Variant {
        self.0
    }
}

/// The mask of one logit, evaluated directly.
fn attends(variant: &Variant, at: LogitIndex) -> bool {
    variant.nodes().iter().all(|node| match node {
        Node::Part(part) => {
            let mut keep = [true];
            part.mask_tile(&mut keep, at);
            keep[0]
        }
        Node::Or(masks) => masks.iter().any(|mask| attends(mask, at)),
        Node::Not(mask) => !attends(mask, at),
        Node::Remap { map, inner } => {
            let size = Variant::from(Node::Part(map.clone())).to_string();
            let size: i32 = size.trim_start_matches("blocks(size=").trim_end_matches(')').parse().expect("a size");
            let row = RowIndex { qo_pos: at.qo_pos % size, ..at.row };
            at.qo_pos / size == at.kv_pos / size && attends(inner, LogitIndex { row, kv_pos: at.kv_pos % size, ..at })
        }
        Node::PerHead(heads) => attends(&heads.branches()[heads.heads()[at.qo_head as usize] as usize], at),
        other => panic!("{other:?}"),
    })
}

proptest! {
    #[test]
    fn expressions_round_trip(mask in any_mask(), cap in 1f32..9.0) {
        let variant = mask.and(SoftCap { cap }).expect("they compose");
        let text = variant.to_string();
        prop_assert_eq!(&parse(&text).expect(&text), &variant);
        let json = serde_json::to_string(&VariantSpec::from(&variant)).expect("plain data");
        let spec: VariantSpec = serde_json::from_str(&json).expect(&json);
        prop_assert_eq!(&spec.build_with(&registry()).expect(&json), &variant);
    }

    #[test]
    fn masks_agree_with_a_direct_evaluation(mask in any_mask(), qo_pos in 0..10, qo_head in 0..3) {
        let row = RowIndex { qo_pos, qo_head, ..RowIndex::default() };
        let mut keep = [true; 150];
        mask.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: 0, kv_slot: 0 });
        for (kv_pos, got) in (0..).zip(keep) {
            let want = attends(&mask, LogitIndex { row, kv_pos, kv_token: kv_pos, kv_slot: 0 });
            prop_assert_eq!(got, want, "{}: key {}", mask, kv_pos);
        }
    }

    #[test]
    fn branches_of_a_union_are_disjoint_and_cover_all_keys(
        a in any_mask(),
        b in any_mask(),
        c in any_mask(),
        qo_pos in 0..10,
    ) {
        let variant: Variant = Node::union(vec![a, b, c]).into();
        let row = at(qo_pos, 0).row;
        let mut keys: Vec<_> = variant.branches().iter().flat_map(|branch| keys_of(branch, row, 20)).collect();
        keys.sort_unstable();
        prop_assert_eq!(keys, keys_of(&variant, row, 20));
    }

    #[test]
    fn no_text_panics(text in "(or|not|remap|per_head|union|causal|even|blocks|heads|[()\\[\\]=,+ 01]){0,20}") {
        if let Ok(variant) = parse(&text) {
            prop_assert_eq!(parse(&variant.to_string()).expect(&text), variant);
        }
    }
}
