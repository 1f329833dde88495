//! The generated C++ of every variant, compiled for the host, against the user's Rust, on random inputs.
//!
//! Contraction is off and both call the same libm. So floats agree to a few units in the last place, and everything
//! else bit for bit.

use attn_core::lang::desc::Elem;
use attn_core::lang::{Dims, FieldType, ParamValue, VariantDesc};
use attn_core::{Registry, Variant};
use attn_tests::catalogue::{self, Shape};
use attn_tests::compare::{HEAD_DIM, compare, compare_with};
use attn_tests::host::HostText;
use attn_tests::{corner_cases, language_stress};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const HEADS: i64 = 6;
const DIMS: Dims = Dims {
    qo_heads: Some(HEADS),
    kv_heads: Some(3),
    head_dim: Some(HEAD_DIM),
    value_dim: Some(HEAD_DIM),
    batch: Some(2),
    qo_tokens: Some(40),
    kv_tokens: Some(80),
};

/// The stock variants, those of the catalogue, and those that exercise the language. Others of this program take no
/// random parameters, and tests beside this one register the text of theirs.
#[test]
fn generated_cpp_equals_rust() {
    generated(0);
}

#[test]
fn generated_cpp_equals_rust_second_half() {
    generated(1);
}

/// Folders of the files of stock variants, and of those of the tests' library.
const FOLDERS: [&str; 2] = ["variants/src/", "tests/src/"];

/// Checks every other variant, so that two tests run in parallel.
fn generated(half: usize) {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    attn_core::registry::register(language_stress::variants()).expect("no two share a name");
    attn_core::registry::register(corner_cases::variants()).expect("no two share a name");
    catalogue::register();
    let registry = Registry::global().expect("no two share a name");
    let mut seen = 0;
    let of_libraries = |desc: &&VariantDesc| FOLDERS.iter().any(|folder| desc.file.starts_with(folder));
    for desc in registry.iter().filter(of_libraries).skip(half).step_by(2) {
        let mut rng = SmallRng::seed_from_u64(7);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = HostText::compile(&random_variant(desc, &mut rng), folder.path());
        for rounds in [3000, 1000, 1000] {
            compare_with(&host, &random_variant(desc, &mut rng), &mut rng, rounds);
        }
        seen += 1;
    }
    assert!(seen >= 30, "stock variants, those of the catalogue and of the tests: {seen}");
}

#[test]
fn catalogue_entries_equal_rust() {
    entries(0);
}

#[test]
fn catalogue_entries_equal_rust_second_half() {
    entries(1);
}

/// Checks every other entry of the catalogue.
fn entries(half: usize) {
    catalogue::register();
    let shape =
        Shape { lens: vec![(13, 30), (27, 50)], qo_heads: HEADS, kv_heads: 3, head_dim: HEAD_DIM, value_dim: HEAD_DIM };
    let mut rng = SmallRng::seed_from_u64(5);
    for entry in catalogue::entries().iter().skip(half).step_by(2) {
        let variant = Variant::parse(&(entry.make)(&shape).expr).expect("an entry").bind(&DIMS).expect("it fits");
        variant.branches().iter().for_each(|branch| compare(branch, &mut rng, 500));
    }
}

/// Parts run in order, sinks add up, and a repeated part has one struct.
#[test]
fn compositions_equal_rust() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
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
    attn_core::registry::register(corner_cases::variants()).expect("no two share a name");
    let text = "made_one(by=3) + named_variant(part0=2) + made_two(by=1) + logit_indexed + made_one(by=0.5) + empty";
    let same_names = Variant::parse(text).expect("they go together").bind(&DIMS).expect("all is given");
    compare(&same_names, &mut rng, 500);
    let sink = |x: f32| attn_variants::Sink { logits: attn_core::lang::Tensor1::from(vec![x; HEADS as usize]) };
    let two = attn_core::compose!(sink(1.0), sink(2.0)).bind(&DIMS).expect("one logit a head");
    compare(&two, &mut rng, 10);
}

/// A variant with random parameters that satisfy its conditions.
fn random_variant(desc: &'static VariantDesc, rng: &mut SmallRng) -> Variant {
    let mut why = String::new();
    // first any values; then small ones, which conditions over several parameters are likely to allow
    for attempt in 0..200 {
        match try_random(desc, attempt >= 100, rng) {
            Ok(variant) => return variant,
            Err(error) => why = error.to_string(),
        }
    }
    panic!("found no parameters that `{}` allows: {why}", desc.name)
}

/// Random scalars, then tensors of the shapes that follow from them. Half of the defaults stay.
fn try_random(
    desc: &'static VariantDesc,
    modest: bool,
    rng: &mut SmallRng,
) -> Result<Variant, Box<dyn std::error::Error>> {
    let scalar = |elem: Elem, least: i64, rng: &mut SmallRng| match elem {
        Elem::I32 | Elem::U32 if modest => ParamValue::Int(rng.random_range(least..least + 3)),
        _ => scalar(elem, rng),
    };
    let mut given = Vec::new();
    for field in desc.fields {
        if let FieldType::Scalar(elem) = field.ty
            && (field.default.is_none() || rng.random())
        {
            given.push(format!("{}={}", field.name, scalar(elem, 1, rng)));
        }
    }
    let mut variant = Variant::parse(&format!("{}({})", desc.name, given.join(", ")))?;
    for (at, field) in desc.fields.iter().enumerate() {
        let elem = match field.ty {
            FieldType::Scalar(_) => continue,
            FieldType::Tensor { elem, .. } => elem,
            FieldType::Out { .. } => Elem::F32,
        };
        if field.default.is_some() && rng.random() {
            continue;
        }
        let part = variant.parts().next().ok_or("the identity has no fields")?;
        let shape = part.shape(at, &DIMS).map_err(|problem| format!("{problem:?}"))?;
        let count = shape.iter().try_fold(1i64, |n, &extent| n.checked_mul(extent).filter(|_| extent > 0));
        let count = count.filter(|&count| count <= MAX_ELEMENTS).ok_or_else(|| format!("{shape:?} is too large"))?;
        let mut flat: Vec<ParamValue> = (0..count).map(|_| scalar(elem, 0, rng)).collect();
        if field.monotone {
            flat.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        variant.set_in(0, field.name, ParamValue::nested(&shape, &mut flat.into_iter()))?;
    }
    Ok(variant.bind(&DIMS)?)
}

/// The largest number of elements of a random tensor.
const MAX_ELEMENTS: i64 = 1 << 14;

fn number(value: &ParamValue) -> f64 {
    match *value {
        ParamValue::Int(x) => x as f64,
        ParamValue::Float(x) => x,
        _ => 0.0,
    }
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
