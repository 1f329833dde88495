//! Derived tile classes against every element, for the committed masks and for random ones.

use attn_core::lang::{Dims, FieldType, ParamValue, desc::Elem};
use attn_core::{Variant, batch, cpu::check_tile_classes, spec::Heads};
use attn_tests::catalogue::{self, Shape, mask_file};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// No class is wrong, and nearly all empty and full tiles are found.
#[test]
fn classes_of_the_committed_masks() {
    catalogue::register();
    let (mut report, mut all) = (String::new(), Vec::new());
    for mask in mask_file::masks() {
        let counts = mask.count().expect("no class is wrong");
        report += &format!("row {:2} {}: {counts}\n", mask.row, mask.name);
        all.push(counts);
    }
    let total: mask_file::Counts = all.into_iter().sum();
    report += &format!("together: {total}");
    assert!(total.empty_found * 100 >= total.empty * 99, "{report}");
    assert!(total.full_found * 100 >= total.full * 98, "{report}");
}

/// Masks with random parameters, on random batches, with random tiles.
#[test]
fn classes_of_random_masks_are_sound() {
    catalogue::register();
    let mut rng = SmallRng::seed_from_u64(2048);
    for round in 0..12 {
        for expr in random_masks(&mut rng) {
            let shape = random_shape(&mut rng);
            let title = format!("round {round}: {expr} on {shape:?}");
            let variant = filled(&expr, &shape, &mut rng).unwrap_or_else(|error| panic!("{title}: {error}"));
            check(&variant, &shape, &title, &mut rng);
        }
    }
}

/// The masks of the catalogue's entries, which have realistic tensors, on random batches.
#[test]
fn classes_of_the_entries_are_sound() {
    catalogue::register();
    let mut rng = SmallRng::seed_from_u64(77);
    for entry in catalogue::entries().iter().filter(|entry| entry.row <= 28) {
        for _ in 0..6 {
            let shape = random_shape(&mut rng);
            let expr = (entry.make)(&shape).expr;
            let title = format!("row {} {} on {shape:?}", entry.row, entry.name);
            let variant = filled(&expr, &shape, &mut rng).unwrap_or_else(|error| panic!("{title}: {error}"));
            check(&variant, &shape, &title, &mut rng);
        }
    }
}

fn check(variant: &Variant, shape: &Shape, title: &str, rng: &mut SmallRng) {
    let lens = |of: fn(&(i64, i64)) -> i64| shape.lens.iter().map(|pair| of(pair) as u32).collect::<Vec<u32>>();
    let (qo, kv) = (batch::indptr(&lens(|pair| pair.0)), batch::indptr(&lens(|pair| pair.1)));
    let (qo, kv) = (qo.expect("short"), kv.expect("short"));
    let layout = batch::Batch::ragged(&qo, &kv).validate().expect("a sound batch");
    let heads = Heads { qo: shape.qo_heads as u32, kv: shape.kv_heads as u32, head_dim: shape.head_dim as u32 };
    let (rows, keys) = (rng.random_range(1..40), rng.random_range(1..40));
    check_tile_classes(variant, &layout, heads, rows, keys).unwrap_or_else(|wrong| panic!("{title}: {wrong}"));
}

fn random_shape(rng: &mut SmallRng) -> Shape {
    let requests = rng.random_range(1..4);
    let lens = (0..requests).map(|_| {
        let keys = rng.random_range(1..70);
        (rng.random_range(0..=keys), keys)
    });
    let (lens, group, kv_heads) = (lens.collect(), rng.random_range(1..4), rng.random_range(1..3));
    Shape { lens, qo_heads: group * kv_heads, kv_heads, head_dim: 8, value_dim: 8 }
}

/// Expressions of masks with random scalars and without tensors.
fn random_masks(rng: &mut SmallRng) -> Vec<String> {
    let mut up_to = |most: i32| if rng.random_range(0..12) == 0 { i32::MAX } else { rng.random_range(0..most) };
    let mut some = || up_to(40);
    let (a, b, c, d, e, f) = (some(), some(), some(), some(), some(), some());
    let size = |x: i32| x.max(1);
    let window = format!("causal + sliding_window(window={a})");
    let documents = rng.random_range(1..9);
    let (blocks, start) = (rng.random_range(1..30), rng.random_range(-90..90));
    vec![
        window.clone(),
        format!("bidirectional_window(left={b}, right={c})"),
        format!("dilated_window(window={d}, dilation={})", size(e)),
        format!("causal + global_window(window={f})"),
        "prefix_lm".to_owned(),
        "causal + documents".to_owned(),
        format!("remap(packed_documents, {window})"),
        "causal_documents".to_owned(),
        "causal + document_spans".to_owned(),
        format!("document_offsets(documents={documents})"),
        format!("shared_prefix(documents={documents})"),
        format!("block_diffusion(length={}, block={})", size(a), size(b)),
        format!("tree(width={})", blocks),
        format!("draft_training(prefix={}, block={})", c.min(99), size(d)),
        format!("remap(batchify(block={}), {window})", size(e)),
        format!("streaming(sink={f}, window={a})"),
        format!("causal + chunked(chunk={})", size(b)),
        format!("block_causal(block={})", size(c)),
        format!("custom_mask(size={})", 400 + blocks),
        "multi_item".to_owned(),
        "flash_mask".to_owned(),
        "image_spans".to_owned(),
        format!("remap(chunk_positions(qo_start={start}, kv_start={blocks}), {window})"),
        format!("remap(positions, {window})"),
        format!("or(chunked(chunk={}), streaming(sink={d}, window={e}))", size(f)),
        format!("causal + not(sliding_window(window={a}))"),
        format!("or(not(documents), block_causal(block={}))", size(b)),
    ]
}

/// The bound variant. Tensors that the expression leaves out are random.
fn filled(expr: &str, shape: &Shape, rng: &mut SmallRng) -> Result<Variant, Box<dyn std::error::Error>> {
    let dims = Dims {
        qo_heads: Some(shape.qo_heads),
        kv_heads: Some(shape.kv_heads),
        head_dim: Some(shape.head_dim),
        value_dim: Some(shape.head_dim),
        batch: Some(shape.batch()),
        qo_tokens: Some(shape.qo_tokens().max(1)),
        kv_tokens: Some(shape.kv_tokens()),
    };
    let mut variant = Variant::parse(expr)?;
    for missing in variant.missing(&dims)? {
        let FieldType::Tensor { elem, .. } = missing.field.ty else { continue };
        let extents = missing.shape.ok_or("a shape over words that are known")?;
        let mut flat: Vec<i64> = (0..extents.iter().product()).map(|_| rng.random_range(-3..60)).collect();
        if missing.field.monotone {
            flat.sort_unstable();
        } else if rng.random() {
            // long runs, as real tables have
            for i in 1..flat.len() {
                if rng.random_range(0..6) > 0 {
                    flat[i] = flat[i - 1];
                }
            }
        }
        let mut flat = flat.into_iter().map(|x| match elem {
            Elem::Bool | Elem::Bits => ParamValue::Bool(x > 28),
            _ => ParamValue::Int(x),
        });
        variant.set_in(missing.part, missing.field.name, ParamValue::nested(&extents, &mut flat))?;
    }
    Ok(variant.bind(&dims)?)
}
