//! Variants that have the properties, and variants whose violations are reported.

use super::{batch_wide, keys, padding, requests, splits, tiles, weights};
use crate::host::Host;
use crate::inputs::Inputs;
use crate::{TestError, check_variant};
use attn::{Engine, Variant, VariantParams, attention_variant, f16};
use attn_core::lang::{
    AttentionVariant, KvIndex, LogitIndex, Normalizer, QueryTile, Row, RowIndex, RowState, Tensor1, Tensor2,
};

crate::variant_test!(nothing: Variant::full());
crate::variant_test!(stock: attn::compose!(attn::stock::Causal, attn::stock::SoftCap { cap: 30.0 }));
crate::variant_test!(nearly: attn::compose!(Near { reach: 9, said: 9 }, Gentle { plus: 0.0 }));
crate::variant_test!(decaying: Decaying { rate: Tensor1::unset(), step: Tensor1::unset() }, step: |dims, rng| {
    (0..dims.qo_heads.unwrap_or(0)).map(|_| 8 * (1 + rng.below(3) as i32)).collect::<Vec<_>>()
});
crate::variant_test!(listed: Listed { queries: 4, stride: 3 });
crate::variant_test!(forgetting: Forgetting { log_forget: Tensor2::unset() });
crate::variant_test!(signed: Signed);
crate::variant_test!(signed_sum: attn::compose!(attn::stock::Causal, SignedSum));
crate::variant_test!(#[batch_wide] packed: Packed { far: 30 });
crate::variant_test!(#[batch_wide] every_other: Somewhere { hook: 1 });

/// A mask of keys within `reach` of the query. Its `kv_range` claims `said`.
#[derive(Clone, VariantParams)]
struct Near {
    reach: i32,
    said: i32,
}

#[attention_variant(name = "properties_near")]
impl AttentionVariant for Near {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.qo_pos - at.kv_pos).abs() <= self.reach
    }
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        (tile.qo_pos_min - self.said, tile.qo_pos_max + self.said + 1)
    }
}

/// Softmax with a constant added to each weight. It scales with the maximum only if the constant is 0.
#[derive(Clone, VariantParams)]
struct Gentle {
    plus: f32,
}

#[attention_variant(name = "properties_gentle")]
impl AttentionVariant for Gentle {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;
    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        (logit - row_max).exp() + self.plus
    }
    fn denominator(&self, _logit: f32, _row_max: f32, weight: f32, _at: LogitIndex) -> f32 {
        weight
    }
}

/// Lists of blocks of 8 keys, by four queries.
#[derive(Clone, VariantParams)]
struct Listed {
    queries: i32,
    stride: i32,
}

#[attention_variant(name = "properties_listed")]
impl AttentionVariant for Listed {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        3 + at.qo_row / 4 % 5
    }
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        at.qo_row / 4 + self.stride * n
    }
    fn kv_list_block_size(&self) -> i32 {
        8
    }
    fn kv_list_queries(&self) -> i32 {
        self.queries
    }
}

/// A decay with a rate that is not positive, and steps that no filled number meets.
#[derive(Clone, VariantParams)]
struct Decaying {
    #[shape(qo_heads)]
    #[require(rate.values().all(|x| x <= 0.0))]
    rate: Tensor1<f32>,
    #[shape(qo_heads)]
    #[require(step.values().all(|x| x >= 8 && x % 8 == 0))]
    step: Tensor1<i32>,
}

#[attention_variant(name = "properties_decaying")]
impl AttentionVariant for Decaying {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let steps = (at.qo_pos - at.kv_pos) / self.step[at.qo_head].max(1);
        logit + 0.125 * self.rate[at.qo_head] * steps as f32
    }
}

/// Forgetting attention (arXiv 2503.02130). Where it is masked, the token of the query may be that of another request.
#[derive(Clone, VariantParams)]
struct Forgetting {
    #[shape(kv_tokens, qo_heads)]
    log_forget: Tensor2<f32>,
}

#[attention_variant(name = "properties_forgetting")]
impl AttentionVariant for Forgetting {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let query = at.kv_token - at.kv_pos + at.qo_pos;
        // beyond the query a neighbour's gates
        let next = at.kv_token + (at.kv_pos - at.qo_pos).max(0);
        logit + self.log_forget[[query, at.qo_head]] - self.log_forget[[next, at.qo_head]]
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// Logits as weights, over their sum: some sums are near 0.
#[derive(Clone, VariantParams)]
struct Signed;

#[attention_variant(name = "properties_signed")]
impl AttentionVariant for Signed {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit
    }
}

/// Logits as weights.
#[derive(Clone, VariantParams)]
struct SignedSum;

#[attention_variant(name = "properties_signed_sum")]
impl AttentionVariant for SignedSum {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit
    }
}

/// Distances in packed tokens, of all requests.
#[derive(Clone, VariantParams)]
struct Packed {
    far: i32,
}

#[attention_variant(name = "properties_packed")]
impl AttentionVariant for Packed {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (attn_core::lang::space::plain(at.qo_token) - attn_core::lang::space::plain(at.kv_token)).abs() <= self.far
    }
}

/// A variant that reads the number of the request in one hook.
#[derive(Clone, VariantParams)]
struct Somewhere {
    hook: i32,
}

#[attention_variant(name = "properties_somewhere")]
impl AttentionVariant for Somewhere {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let by = if self.hook == 0 { at.batch as f32 } else { 0.0 };
        q.map(|_, x| x + by);
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if self.hook == 1 { logit + 0.5 * (at.batch % 2) as f32 } else { logit }
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos && (self.hook != 2 || at.kv_pos % 3 != at.batch)
    }
    fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let by = if self.hook == 3 { 1.0 + at.batch as f32 } else { 1.0 };
        (logit - row_max).exp() * by
    }
    fn denominator(&self, _logit: f32, _row_max: f32, weight: f32, at: LogitIndex) -> f32 {
        if self.hook == 4 { weight * (1.0 + at.batch as f32) } else { weight }
    }
    fn sink_logit(&self, at: RowIndex) -> f32 {
        if self.hook == 5 { at.batch as f32 } else { 0.0 }
    }
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        let by = if self.hook == 6 { at.batch as f32 } else { 0.0 };
        o.map(|_, x| x + by);
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let by = if self.hook == 7 { at.batch as f32 } else { 0.0 };
        k.map(|_, x| x + by);
    }
    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        let by = if self.hook == 8 { at.batch as f32 } else { 0.0 };
        v.map(|_, x| x + by);
    }
}

/// Every hook is compared, and where it is wrong it is named.
#[test]
fn a_hook_that_reads_the_number_of_the_request_is_named() {
    let hooks = [
        "query_transform",
        "logits_transform",
        "logits_mask",
        "weight",
        "denominator",
        "sink_logit",
        "output_transform",
        "key_transform",
        "value_transform",
    ];
    for (hook, name) in (0..).zip(hooks) {
        says(requests(&Somewhere { hook }.into()), &format!("alone: `{name}` of "));
        batch_wide(&Somewhere { hook }.into()).expect("it says so");
    }
    requests(&Somewhere { hook: 9 }.into()).expect("no hook reads it");
}

#[test]
fn a_variant_that_depends_on_requests_alone_is_not_batch_wide() {
    for right in [Variant::full(), Somewhere { hook: 9 }.into(), attn::stock::Causal.into()] {
        says(batch_wide(&right), "leave `#[batch_wide]` out");
    }
}

/// Keys of the request that no query attends to, and logits that are masked, may be anything.
#[test]
fn what_changes_nothing_is_not_compared() {
    requests(&Elsewhere { masked: true }.into()).expect("masked logits alone differ");
    says(requests(&Elsewhere { masked: false }.into()), "`logits_transform` of query");
}

/// A bias by the number of the request: of masked keys, or of the others too.
#[derive(Clone, VariantParams)]
struct Elsewhere {
    masked: bool,
}

#[attention_variant(name = "properties_elsewhere")]
impl AttentionVariant for Elsewhere {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < at.qo_pos
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let hidden = at.kv_pos >= at.qo_pos;
        if hidden || !self.masked { logit + at.batch as f32 } else { logit }
    }
}

#[test]
#[should_panic(expected = "has no parameter `stride`")]
fn a_generator_names_a_parameter() {
    let generators = vec![crate::fill::generator("stride", |_, _| vec![1.0f32])];
    crate::fill::with_generators(&Near { reach: 9, said: 9 }.into(), generators, |_| ());
}

fn says(result: Result<(), TestError>, what: &str) {
    let error = result.expect_err("the property is violated").to_string();
    assert!(error.contains(what), "{what} is not in: {error}");
}

#[test]
fn a_range_that_is_too_narrow() {
    let narrow = Near { reach: 9, said: 8 }.into();
    says(keys(&narrow), "`kv_range` leaves out keys");
    says(tiles(&narrow), "tiles are not what their elements are");
    // the CPU skips the keys outside of `kv_range`
    says(check_variant(&Near { reach: 9, said: 4 }.into()), "rel_err");
}

#[test]
fn lists_that_are_not_shared_or_have_a_block_twice() {
    says(keys(&Listed { queries: 6, stride: 3 }.into()), "rows that share a list");
    says(keys(&Listed { queries: 4, stride: 0 }.into()), "a block comes twice");
    says(check_variant(&Listed { queries: 64, stride: 3 }.into()), "rel_err");
}

#[test]
fn weights_that_do_not_scale() {
    let added = Gentle { plus: 0.01 }.into();
    says(weights(&added), "`weight` of logit");
    says(splits(&added), "the result depends on how the work is split");
}

#[test]
fn inputs_that_differ_in_a_key_are_not_the_same() {
    let case = &super::cases::cases()[1];
    let (a, mut b) = (Inputs::new(case, false).expect("sound"), Inputs::new(case, false).expect("sound"));
    let Host::F16(values) = &mut b.v else { panic!("{:?}", b.v.dtype()) };
    let first = values.iter_mut().find(|x| !x.is_nan()).expect("some key");
    *first = f16::from_f32(100.0);
    let full = Variant::full();
    says(padding::same(case, &full, &Engine::cpu(), [&a, &b]), "changes the result");
    assert!(padding::same(case, &full, &Engine::cpu(), [&a, &a]).is_ok());
}

/// A mask that takes a token of the batch for a position, which the check of index spaces is told to accept.
#[derive(Clone, VariantParams)]
struct WrongSpace;

#[attention_variant(name = "properties_wrong_space")]
impl AttentionVariant for WrongSpace {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        attn_core::lang::space::plain(at.qo_token) >= at.kv_pos
    }
}

/// A bias over the tokens of the batch, at the position of the key: `by` is 1 where the token is meant.
#[derive(Clone, VariantParams)]
struct OfTokens {
    right: bool,
    #[shape(kv_tokens)]
    bias: attn_core::lang::Tensor1<f32>,
    #[shape(batch, 3)]
    heat: attn_core::lang::Tensor2<f32>,
}

#[attention_variant(name = "properties_of_tokens")]
impl AttentionVariant for OfTokens {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let token = if self.right { at.kv_token } else { attn_core::lang::space::plain(at.kv_pos) };
        logit * self.heat[[at.batch, at.qo_head % 3]] + self.bias[token]
    }
}

#[test]
fn an_index_of_another_space() {
    says(requests(&WrongSpace.into()), "another result in a batch than alone: `logits_mask` of query 0, head 0");
    let of =
        |right| OfTokens { right, bias: attn_core::lang::Tensor1::unset(), heat: attn_core::lang::Tensor2::unset() };
    says(requests(&of(false).into()), "`logits_transform` of query");
    requests(&of(true).into()).expect("the token is the key's");
}

#[test]
fn stock_variants_give_a_request_what_it_has_alone() {
    let mut registry = attn_core::registry::Registry::empty();
    registry.register_all(attn::stock::variants()).expect("no two share a name");
    for desc in registry.iter() {
        let expr = crate::fill::example_expression(desc, &registry).expect(desc.name);
        if let Ok(variant) = Variant::parse_with(&expr, &registry) {
            requests(&variant).unwrap_or_else(|error| panic!("{expr}: {error}"));
        }
    }
}
