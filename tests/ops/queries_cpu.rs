//! Queries beside appends, on the CPU: rotated as keys are, and what is refused.

use attn_tests::synthetic::values;

use attn::lang::{AttentionVariant, Row, RowIndex};
use attn::ops::*;
use attn::{Dtype, Engine, Error, Heads, Scale, Variant, VariantParams, attention_variant};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };
const TOKENS: usize = 5;
/// Two tokens are not written.
const SLOTS: [i64; TOKENS] = [3, -1, 7, 0, -1];
const POSITIONS: [i32; TOKENS] = [0, 3, 9, 100, 4];

/// Types of queries, of keys and values, and of the outputs of queries.
struct Case {
    variant: &'static str,
    types: [Dtype; 3],
    rest: usize,
    in_place: bool,
    q_scale: f32,
}

const CASE: Case = Case { variant: "rope", types: [Dtype::F32; 3], rest: 0, in_place: false, q_scale: 1.0 };

/// Queries by what an append does not know.
#[derive(Clone, Debug, VariantParams)]
struct ByLength {}

#[attention_variant(name = "by_length")]
impl AttentionVariant for ByLength {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.map(|_, x| x * at.kv_len as f32);
    }
}

/// Both parts of the queries, and the pool of keys.
type Written = [Vec<f32>; 3];

fn run(case: &Case, slots: SlotMapping<'_>) -> Result<Written, Error> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream()?);
    let [of_q, of_kv, of_out] = case.types;
    let upload = |dtype, values: &[f32]| match dtype {
        Dtype::F32 => engine.upload(values),
        _ => engine.upload(&values.iter().map(|&x| half::bf16::from_f32(x)).collect::<Vec<_>>()),
    };
    let dims = [16, case.rest];
    let q = [0, 1].map(|part| upload(of_q, &values(TOKENS * 4 * dims[part], 3 + part as u32)).expect("memory"));
    let k = upload(of_kv, &values(TOKENS * 2 * 16, 1))?;
    let mut out = [0, 1].map(|part| match case.in_place {
        true => upload(of_q, &values(TOKENS * 4 * dims[part], 3 + part as u32)).expect("memory"),
        false => engine.alloc(of_out, TOKENS * 4 * dims[part]).expect("memory"),
    });
    let mut pool = engine.upload(&vec![0.0f32; 8 * 2 * 16])?;
    let through = KvTransform::new(&engine, &Variant::parse(case.variant)?, HEADS)?;
    let append = Append { q_scale: Scale::of(case.q_scale), ..Append::at(slots) };
    {
        let shape = |part: usize| [TOKENS, 4, dims[part]];
        let (first, rest) = (q[0].tensor(&shape(0))?, q[1].tensor(&shape(1))?);
        let from = if case.rest == 0 { KvRef::latent(first) } else { KvRef::new(first, rest) };
        let [first, rest] = &mut out;
        let (first, rest) = (first.tensor_mut(&shape(0))?, rest.tensor_mut(&shape(1))?);
        let mut to = if case.rest == 0 { KvMut::latent(first) } else { KvMut::new(first, rest) };
        let rows = KvRef::latent(k.tensor(&[TOKENS, 2, 16])?);
        let mut pools = KvMut::latent(pool.tensor_mut(&[2, 4, 2, 16])?);
        let from = (!case.in_place).then_some(&from);
        through.append_with_queries(&stream, from, &mut to, &rows, &mut pools, &append)?;
    }
    let [first, rest] = &out;
    Ok([engine.download_f32(first)?, engine.download_f32(rest)?, engine.download_f32(&pool)?])
}

fn slots() -> SlotMapping<'static> {
    SlotMapping::Slots { slots: Array::host(&SLOTS), positions: Some(Array::host(&POSITIONS)) }
}

/// Rows that `rope` rotates as keys: of pages of one slot, where each token has its own.
fn rotated(rows: &[f32], heads: usize) -> Vec<f32> {
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream().expect("a token"));
    let heads_of = Heads { qo: heads as u32, kv: heads as u32, head_dim: 16 };
    let through = KvTransform::new(&engine, &Variant::parse("rope").expect("stock"), heads_of).expect("known");
    let (from, mut to) = (engine.upload(rows).expect("memory"), engine.upload(rows).expect("memory"));
    let own: Vec<i64> = (0..TOKENS as i64).collect();
    let slots = SlotMapping::Slots { slots: Array::host(&own), positions: Some(Array::host(&POSITIONS)) };
    let rows = KvRef::latent(from.tensor(&[TOKENS, heads, 16]).expect("fits"));
    let mut pool = KvMut::latent(to.tensor_mut(&[TOKENS, 1, heads, 16]).expect("fits"));
    append_paged(&stream, &rows, &mut pool, &Append::at(slots), Some(&through)).expect("sound");
    engine.download(&to).expect("f32")
}

#[test]
fn queries_are_rotated_as_keys_are() {
    let [q, _, pool] = run(&CASE, slots()).expect("sound");
    assert_eq!(q, rotated(&values(TOKENS * 4 * 16, 3), 4), "tokens without slots have queries too");
    let keys = rotated(&values(TOKENS * 2 * 16, 1), 2);
    for (token, slot) in SLOTS.into_iter().enumerate().filter(|(_, slot)| *slot >= 0) {
        assert_eq!(pool[slot as usize * 32..][..32], keys[token * 32..][..32]);
    }
    assert_eq!(pool.iter().filter(|x| **x != 0.0).count(), 3 * 32);
    assert_eq!(run(&Case { in_place: true, ..CASE }, slots()).expect("sound")[0], q);
}

#[test]
fn queries_are_scaled_and_rounded() {
    let case = Case { types: [Dtype::F32, Dtype::F32, Dtype::E4m3], rest: 8, q_scale: 0.5, ..CASE };
    let [q, rest, _] = run(&case, slots()).expect("sound");
    let rounded = |x: f32| attn_core::tensor::Element::to_f32(attn::lang::F8E4M3::from_f32(x * 2.0));
    let want: Vec<f32> = rotated(&values(TOKENS * 4 * 16, 3), 4).into_iter().map(rounded).collect();
    assert_eq!(q, want);
    assert_eq!(rest, values(TOKENS * 4 * 8, 4).into_iter().map(rounded).collect::<Vec<_>>(), "not rotated");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |case: &Case, slots: SlotMapping<'_>, parts: &[&str]| {
        let error = run(case, slots).expect_err("refused").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let unplaced = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: None };
    refused(&CASE, unplaced, &["rope", "positions"]);
    refused(&Case { types: [Dtype::Bf16, Dtype::F32, Dtype::F32], ..CASE }, slots(), &["q is bf16", "f32"]);
    refused(&Case { q_scale: 0.0, ..CASE }, slots(), &["q_scale"]);
    refused(&Case { variant: "by_length", ..CASE }, slots(), &["`by_length` reads `kv_len` of a query"]);
}
