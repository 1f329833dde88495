//! The generated C++ of every variant, run by a host compiler's code, against the user's Rust, on random inputs.
//!
//! Contraction is off and both call the same libm, so that floats agree to a few units in the last place, and
//! everything else to the bit.

extern crate attn_core as attn;

use attn::lang::QueryTile;
use attn::lang::desc::Elem;
use attn::{
    Registry, Variant,
    lang::{Dims, FieldDesc, FieldType, Hook, KvIndex, LogitIndex, ParamValue, RowIndex, RowState, Tile, VariantDesc},
};
use attn_tests::{host::HostVariant, oddities, torture};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const HEADS: i64 = 6;
const HEAD_DIM: i64 = 16;
const DIMS: Dims = Dims {
    qo_heads: Some(HEADS),
    kv_heads: Some(3),
    head_dim: Some(HEAD_DIM),
    batch: Some(2),
    qo_tokens: Some(40),
    kv_tokens: Some(80),
};

/// Every registered variant: the stock ones, and those that exercise the language.
#[test]
fn generated_text_means_what_the_rust_means() {
    attn::registry::register(attn_variants::variants()).expect("no two share a name");
    attn::registry::register(torture::variants()).expect("no two share a name");
    attn::registry::register(oddities::variants()).expect("no two share a name");
    let registry = Registry::global().expect("no two share a name");
    let mut seen = 0;
    for desc in registry.iter() {
        let mut rng = SmallRng::seed_from_u64(7);
        for round in 0..3 {
            let variant = random_variant(desc, &mut rng);
            compare(&variant, &mut rng, if round == 0 { 4000 } else { 1000 });
        }
        seen += 1;
    }
    assert!(seen >= 22, "nine stock variants, five and eight of the tests: {seen}");
}

/// Parts in order, sinks added up, one struct for a part that is there twice.
#[test]
fn compositions_mean_what_the_rust_means() {
    attn::registry::register(attn_variants::variants()).expect("no two share a name");
    let mut rng = SmallRng::seed_from_u64(11);
    for text in [
        "causal + soft_cap(cap=30)",
        "soft_cap(cap=20) + alibi + soft_cap(cap=5)",
        "sliding_window(window=9) + causal + rope(interleaved=true) + qk_norm + alibi",
        "qk_norm(eps=0.5) + rope + sliding_window(window=3)",
        "causal + sigmoid(bias=-1)",
    ] {
        let variant = Variant::parse(text).expect("stock variants").bind(&DIMS).expect("defaults for the rest");
        compare(&variant, &mut rng, 2000);
    }
    attn::registry::register(oddities::variants()).expect("no two share a name");
    let text = "made_one(by=3) + named_variant(part0=2) + made_two(by=1) + logit_indexed + made_one(by=0.5) + empty";
    let twins = Variant::parse(text).expect("they go together").bind(&DIMS).expect("all is given");
    compare(&twins, &mut rng, 500);
    let sink = |x: f32| attn_variants::Sink { logits: attn::lang::Tensor1::from(vec![x; HEADS as usize]) };
    let two = attn::compose!(sink(1.0), sink(2.0)).bind(&DIMS).expect("one logit a head");
    compare(&two, &mut rng, 10);
}

/// A variant with random parameters that its conditions allow.
fn random_variant(desc: &'static VariantDesc, rng: &mut SmallRng) -> Variant {
    for _ in 0..1000 {
        let mut given = Vec::new();
        for field in desc.fields {
            // half of the defaults stay
            if field.default.is_none() || rng.random() {
                given.push(format!("{}={}", field.name, random_value(field, rng)));
            }
        }
        let text = format!("{}({})", desc.name, given.join(", "));
        if let Some(variant) = Variant::parse(&text).ok().and_then(|v| v.bind(&DIMS).ok()) {
            return variant;
        }
    }
    panic!("no parameters were found that `{}` allows", desc.name);
}

fn random_value(field: &FieldDesc, rng: &mut SmallRng) -> ParamValue {
    let (elem, rank) = match field.ty {
        FieldType::Scalar(elem) => (elem, 0),
        FieldType::Tensor { elem, rank } => (elem, rank),
        FieldType::Out { rank } => (Elem::F32, rank),
    };
    let first = match field.shape.trim() {
        shape if shape.starts_with("head_dim") => HEAD_DIM,
        shape if shape.starts_with("if") => HEAD_DIM / 2,
        _ => HEADS,
    };
    let shape: Vec<i64> = (0..rank).map(|axis| if axis == 0 { first } else { HEAD_DIM }).collect();
    nested(&shape, &mut || scalar(elem, rng))
}

fn scalar(elem: Elem, rng: &mut SmallRng) -> ParamValue {
    match elem {
        Elem::I32 if rng.random() => ParamValue::Int(i64::from(rng.random::<i32>())),
        Elem::I32 => ParamValue::Int(rng.random_range(-2..20)),
        Elem::U32 if rng.random() => ParamValue::Int(i64::from(rng.random::<u32>())),
        Elem::U32 => ParamValue::Int(rng.random_range(0..5)),
        Elem::U8 => ParamValue::Int(i64::from(rng.random::<u8>())),
        Elem::Bool | Elem::Bits => ParamValue::Bool(rng.random()),
        Elem::F32 | Elem::F16 | Elem::Bf16 | Elem::F8E4M3 | Elem::F8E5M2 => {
            ParamValue::Float(f64::from((rng.random::<f32>() - 0.3) * 10.0))
        }
    }
}

fn nested(shape: &[i64], scalar: &mut impl FnMut() -> ParamValue) -> ParamValue {
    match shape.split_first() {
        Some((&n, inner)) => ParamValue::List((0..n).map(|_| nested(inner, scalar)).collect()),
        None => scalar(),
    }
}

/// Compares every hook that a part wrote, and the trivial ones too.
fn compare(variant: &Variant, rng: &mut SmallRng, rounds: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = HostVariant::compile(variant, folder.path());
    for _ in 0..rounds {
        let at = random_index(rng);
        let logit = random_logit(rng);
        let mut one = [logit];
        variant.logits_tile(&mut one, at);
        same(variant, Hook::LogitsTransform, host.logits_transform(logit, at), one[0], (logit, at));

        let mut keep = [true];
        variant.mask_tile(&mut keep, at);
        assert_eq!(host.logits_mask(at), keep[0], "{variant}: logits_mask of {at:?}");

        let row_max = if rng.random() { 0.0 } else { rng.random::<f32>() * 50.0 };
        let mut one = [logit];
        variant.weight_tile(&mut one, row_max, at);
        same(variant, Hook::Weight, host.weight(logit, row_max, at), one[0], (logit, row_max, at));

        same(variant, Hook::SinkLogit, host.sink_logit(at.row), variant.sink_logit(at.row), at);

        let tile = random_tile(rng);
        assert_eq!(host.tile_class(tile), variant.tile_class(tile), "{variant}: tile_class of {tile:?}");
    }
    for _ in 0..rounds / 10 {
        let at = random_index(rng);
        let key = KvIndex {
            batch: at.batch,
            kv_pos: at.kv_pos,
            kv_token: at.kv_token,
            kv_head: at.kv_head,
            kv_len: at.kv_len,
        };
        let state = RowState { row_max: rng.random(), denominator: rng.random::<f32>() * 3.0, lse: rng.random() };
        let values: Vec<f32> = (0..HEAD_DIM).map(|_| (rng.random::<f32>() - 0.5) * 8.0).collect();
        let both = |got: &dyn Fn(&mut [f32]), want: &dyn Fn(&mut [f32]), hook: Hook| {
            let (mut a, mut b) = (values.clone(), values.clone());
            got(&mut a);
            want(&mut b);
            for (a, b) in a.iter().zip(&b) {
                same(variant, hook, *a, *b, at);
            }
        };
        both(&|x| host.query_row(x, at.row), &|x| variant.query_row(x, at.row), Hook::QueryTransform);
        both(&|x| host.key_row(x, key), &|x| variant.key_row(x, key), Hook::KeyTransform);
        both(&|x| host.output_row(x, state, at.row), &|x| variant.output_row(x, state, at.row), Hook::OutputTransform);
    }
}

/// Equal, both NaN, or a few units in the last place apart.
fn same(variant: &Variant, hook: Hook, got: f32, want: f32, input: impl std::fmt::Debug) {
    let close = got.to_bits() == want.to_bits()
        || got == want
        || got.is_nan() && want.is_nan()
        || (got - want).abs() <= 4.0 * f32::EPSILON * want.abs();
    assert!(close, "{variant}: {} of {input:?} is {want} in Rust, {got} in C++", hook.method());
}

fn random_logit(rng: &mut SmallRng) -> f32 {
    match rng.random_range(0..20) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => -0.0,
        4 => f32::from(rng.random_range(-6i8..6)) + 0.5,
        5 => rng.random_range(-300.0f32..300.0),
        6 => rng.random_range(-3e9..3e9),
        7 => f32::MIN_POSITIVE * rng.random::<f32>(),
        _ => rng.random_range(-12.0..12.0),
    }
}

/// Any index, out of every table too: edge tiles call hooks there.
fn random_index(rng: &mut SmallRng) -> LogitIndex {
    let kv_len = rng.random_range(0..70);
    let qo_len = rng.random_range(0..40);
    let qo_row = rng.random_range(0..64);
    let qo_head = rng.random_range(0..8);
    let kv_pos = if rng.random_range(0..8) == 0 { rng.random_range(0..200_000) } else { rng.random_range(0..80) };
    let row = RowIndex {
        batch: rng.random_range(0..3),
        qo_row,
        qo_pos: qo_row + kv_len - qo_len,
        qo_token: rng.random_range(0..64),
        qo_head,
        kv_head: qo_head / 2,
        qo_len,
        kv_len,
    };
    LogitIndex { row, kv_pos, kv_token: rng.random_range(0..100) }
}

fn random_tile(rng: &mut SmallRng) -> Tile {
    let (q, k) = (rng.random_range(-20..60), rng.random_range(0..60));
    let rows = QueryTile {
        batch: rng.random_range(0..3),
        qo_pos_min: q,
        qo_pos_max: q + rng.random_range(0..16),
        qo_len: rng.random_range(0..40),
        kv_len: rng.random_range(0..70),
        ..QueryTile::default()
    };
    Tile { rows, kv_pos_min: k, kv_pos_max: k + rng.random_range(0..16), ..Tile::default() }
}
