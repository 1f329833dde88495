//! KV formats on the CPU, through the public interface: caches that are appended to, read and gathered; the grid of
//! formats against the reference; what is refused, in the same words by `supports` and by plans.

use attn::expr::TensorContent;
use attn::lang::{KvFormats, Tensor2};
use attn::ops::*;
use attn::{
    AttentionOptions, Batch, Dtype, Dtypes, Engine, Error, ExprError, HeadDimVo, Heads, Kv, KvSides, KvStored, Out,
    PageOrder, Spec, Target, Variant, stock, supports,
};
use attn_core::{dtype::DtypesError, lang::kv_format::RowBytes};
use attn_testing::{Case, case_plans, case_supports, check, grid};
use attn_tests::setup::descending_pages;
use attn_tests::synthetic::values;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
/// Keys of two requests, and prefix sums of their last queries.
const LENS: ([u32; 2], [i32; 3]) = ([11, 5], [0, 3, 4]);
const TOKENS: usize = 16;
const PAGES: usize = 7;
const SLOTS: usize = 4;

/// Every stock format, and a pair of two.
fn stock_formats() -> Vec<KvFormats> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    attn::registry::register_kv_formats(stock::kv_formats::all()).expect("no two share a name");
    let steps = (0..128).map(|i| 0.02 + i as f32 * 1e-4).collect();
    let scales = Tensor2::new(steps, [2, 64]).expect("a table");
    let channels = |bits| stock::kv_formats::PerChannel { bits, scales: scales.clone() };
    let by_name = ["int8", "int4", "int4(group=16, zero=true)", "nvfp4", "mx_fp8", "turbo4", "bf16", "int8 / int4"];
    let parsed = by_name.into_iter().map(|text| KvFormats::parse(text).expect(text));
    parsed.chain([KvFormats::both(channels(8)), KvFormats::new(channels(4), stock::kv_formats::F16)]).collect()
}

/// O of a plan over keys and values.
fn attended(variant: &Variant, dtypes: Dtypes, options: AttentionOptions, batch: &Batch<'_>, kv: Kv<'_>) -> Vec<f32> {
    let engine = Engine::cpu();
    let attention = engine.attention_with(variant, HEADS, dtypes, options).expect("bound");
    let plan = attention.plan(batch, &mut engine.workspace()).expect("sound");
    let q = engine.upload(&values(4 * 4 * 64, 3)).expect("memory");
    let mut o = engine.alloc(Dtype::F32, 4 * 4 * 64).expect("memory");
    let out = Out::new(o.tensor_mut(&[4, 4, 64]).expect("fits"));
    plan.run(&engine.stream().expect("a token"), q.tensor(&[4, 4, 64]).expect("fits"), kv, out).expect("runs");
    engine.download(&o).expect("f32")
}

#[test]
fn a_cache_that_is_appended_to_is_read_as_it_is_gathered() -> Result<(), Error> {
    let engine = Engine::cpu();
    let stream = engine.stream()?;
    let (k, v) = (engine.upload(&values(TOKENS * 128, 1))?, engine.upload(&values(TOKENS * 128, 2))?);
    let table = descending_pages(&LENS.0, SLOTS as u32, PAGES as u32);
    let slots = slots_of_new_keys(&Batch::paged(&[0, 11, 16], &table.table()).validate()?).expect("pages");
    let positions: Vec<i32> = LENS.0.iter().flat_map(|&len| 0..len as i32).collect();
    for formats in stock_formats() {
        for (order, hooks) in [(PageOrder::Nhd, ""), (PageOrder::Hnd, "rope + value_norm")] {
            let hooked = if hooks.is_empty() { Variant::full() } else { Variant::parse(hooks)? };
            let hooked = hooked.with_kv_formats(formats.clone());
            let rows = [0, 1].map(|part| RowBytes::of(formats.part(part), 64));
            let shape = |bytes: usize| match order {
                PageOrder::Nhd => [PAGES, SLOTS, 2, bytes],
                PageOrder::Hnd => [PAGES, 2, SLOTS, bytes],
            };
            let pool = |bytes: usize| engine.upload_bytes(&vec![0xff; PAGES * SLOTS * 2 * bytes]);
            let (mut k_pool, mut v_pool) = (pool(rows[0].codes)?, pool(rows[1].codes)?);
            let (mut k_side, mut v_side) = (pool(rows[0].side)?, pool(rows[1].side)?);
            let transform = KvTransform::new(&engine, &hooked, HEADS)?;
            {
                let sides = [(&mut k_side, rows[0].side), (&mut v_side, rows[1].side)];
                let [k_side, v_side] =
                    sides.map(|(side, bytes)| (bytes > 0).then(|| side.tensor_mut(&shape(bytes))).transpose());
                let (k_codes, v_codes) =
                    (k_pool.tensor_mut(&shape(rows[0].codes))?, v_pool.tensor_mut(&shape(rows[1].codes))?);
                let mut cache = KvMut::paged_in(k_codes, v_codes, order)?
                    .with_sides(KvSidesMut::paged_in(k_side?, v_side?, order)?);
                let new = KvRef::new(k.tensor(&[TOKENS, 2, 64])?, v.tensor(&[TOKENS, 2, 64])?);
                let at = SlotMapping::Slots { slots: Array::host(&slots), positions: Some(Array::host(&positions)) };
                append_paged(&stream, &new, &mut cache, &Append::at(at), Some(&transform))?;
            }
            let sides = [(&k_side, rows[0].side), (&v_side, rows[1].side)];
            let [k_side, v_side] =
                sides.map(|(side, bytes)| (bytes > 0).then(|| side.tensor(&shape(bytes))).transpose());
            let (k_codes, v_codes) = (k_pool.tensor(&shape(rows[0].codes))?, v_pool.tensor(&shape(rows[1].codes))?);
            let packed = Kv::paged_in(k_codes, v_codes, order)?.with_sides(KvSides::paged_in(k_side?, v_side?, order)?);

            let (mut k_out, mut v_out) =
                (engine.alloc(Dtype::F32, TOKENS * 128)?, engine.alloc(Dtype::F32, TOKENS * 128)?);
            let mut plain = KvMut::new(k_out.tensor_mut(&[TOKENS, 2, 64])?, v_out.tensor_mut(&[TOKENS, 2, 64])?);
            let (ends, indptr) = ([0, 11, 16], table.indptr.clone());
            let rows = PageTableRows::Csr { indptr: Array::host(&indptr), pages: Array::host(&table.indices) };
            let gather = Gather::new(Array::host(&ends), rows);
            gather_with(&stream, &KvRef::from(packed), &mut plain, &gather, Some(&transform))?;
            assert!(engine.download::<f32>(&k_out)?.iter().all(|x| x.is_finite()), "{formats}");

            // the variant reads the cache as the append left it
            let text = if hooks.is_empty() { "causal" } else { "causal + rope + value_norm" };
            let variant = Variant::parse(text)?;
            let options = AttentionOptions { stored: KvStored::Transformed, ..AttentionOptions::default() };
            let typed = variant.clone().with_kv_formats(formats.clone());
            let bytes = Dtypes::f32().with_kv(Dtype::U8);
            let got = attended(&typed, bytes, options, &Batch::paged(&LENS.1, &table.table()), packed);
            let ragged = Kv::ragged(k_out.tensor(&[TOKENS, 2, 64])?, v_out.tensor(&[TOKENS, 2, 64])?);
            let want = attended(&variant, Dtypes::f32(), options, &Batch::ragged(&LENS.1, &ends), ragged);
            assert!(got.iter().all(|x| x.is_finite()) && got == want, "{formats} {hooks}");
        }
    }
    Ok(())
}

#[test]
fn the_grid_of_formats_is_near_the_reference() {
    stock_formats();
    let engine = Engine::cpu();
    let cheap = grid::formats().into_iter().filter(|case| case.check_cost() < 4_000_000);
    let mut checked = 0;
    for case in cheap {
        let result = check(&Case { graph: false, ..case.clone() }, &engine)
            .unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        assert!(result.passed, "{}: {}", case.title(), result.why());
        checked += 1;
    }
    assert!(checked >= 40, "{checked} cases");
}

#[test]
fn supports_and_plans_refuse_in_the_same_words() {
    stock_formats();
    let engine = Engine::cpu();
    let mut counts = [0, 0];
    for (number, mut case) in grid::formats().into_iter().step_by(5).enumerate() {
        match number % 4 {
            0 => case.kv_dtype = Some("int4(group=24)".to_owned()),
            1 => case.head_dim = 68,
            2 if case.kv_dtype.as_deref() != Some("ds_mla") => {
                (case.head_dim_vo, case.kv_dtype) = (HeadDimVo::SharedWithKeys(512), Some("int8".to_owned()));
            }
            _ => {}
        }
        case.kernel = "auto".to_owned();
        let answer = case_supports(&case, Target::Cpu).expect("a case").map_err(|error| error.to_string());
        let planned = case_plans(&case, &engine).expect("a case").map(drop).map_err(|error| error.to_string());
        assert_eq!(answer, planned, "{}", case.title());
        counts[usize::from(answer.is_err())] += 1;
    }
    assert!(counts[0] > 10 && counts[1] > 10, "{counts:?}");
}

#[test]
fn types_that_do_not_go_together_are_refused_with_the_way_out() {
    stock_formats();
    let full = Variant::full();
    let spec = Spec::new(&full, HEADS, Dtypes::bf16().with_kv(Dtype::U8), Target::Cpu);
    let refused = |spec: Spec<'_>, words: &[&str]| {
        let error = supports(&spec).expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        let of =
            Engine::cpu().attention_with(spec.variant, spec.heads, spec.dtypes, spec.options).expect_err("refused");
        assert_eq!(of.to_string(), error);
    };
    refused(spec, &["k and v are u8", "with_kv_format"]);
    // the same words without a GPU
    let error = supports(&Spec { target: Target::Cuda { capability: (9, 0) }, ..spec }).expect_err("refused");
    assert_eq!(error.to_string(), DtypesError::NoFormat.to_string());
    let int8 = KvFormats::parse("int8").expect("a format");
    let typed = full.clone().with_kv_formats(int8.clone());
    refused(Spec { variant: &typed, dtypes: Dtypes::bf16(), ..spec }, &["bf16", "int8", "Dtype::U8"]);
    let other = Dtypes::bf16().with_kv_format("nvfp4").expect("a format");
    refused(Spec { variant: &typed, dtypes: other, ..spec }, &["over int8", "nvfp4", "in one place"]);
    let two = Dtypes::bf16().with_kv_format("int8 / nvfp4").expect("two");
    let options = AttentionOptions { head_dim_vo: HeadDimVo::SharedWithKeys(32), ..AttentionOptions::default() };
    refused(Spec { dtypes: two, options, ..spec }, &["int8 / nvfp4", "the keys alone"]);
    let channels = Dtypes::bf16().with_kv_format("per_channel").expect("a format");
    refused(Spec { dtypes: channels, ..spec }, &["key_format per_channel", "`scales` is not set"]);
    let int4 = Dtypes::bf16().with_kv_format("int4").expect("a format");
    refused(Spec { dtypes: int4, heads: Heads { head_dim: 72, ..HEADS }, ..spec }, &["group", "head_dim"]);
    refused(
        Spec { dtypes: Dtypes::bf16().with_format(int8.id()), heads: Heads { head_dim: 12, ..HEADS }, ..spec },
        &["head_dim = 12", "a multiple of 8"],
    );
    let ds_mla = Dtypes::bf16().with_kv_format("ds_mla").expect("a format");
    refused(Spec { dtypes: ds_mla, ..spec }, &["ds_mla", "head_dim = 64"]);
    let error = Dtypes::bf16().with_kv_format("int5").expect_err("no such format");
    assert!(
        matches!(&error, ExprError::UnknownKvFormat { nearest: Some(near), .. } if near.starts_with("int")),
        "{error}"
    );
    let error = Dtypes::bf16().with_kv_format("int4(groups=32)").expect_err("no such parameter").to_string();
    assert!(error.contains("at column 6") && error.contains("did you mean `group`?"), "{error}");
}

#[test]
fn layers_have_scales_of_their_own_and_new_ones_in_place() -> Result<(), Error> {
    stock_formats();
    let engine = Engine::cpu();
    let table = |x: f32| Tensor2::new(vec![x; 128], [2, 64]).expect("a table");
    let over = |x: f32| {
        let format = stock::kv_formats::PerChannel { bits: 8, scales: table(x) };
        Variant::full().with_kv_formats(KvFormats::both(format))
    };
    let attention = engine.attention(&over(0.5), HEADS, Dtypes::f32().with_kv(Dtype::U8))?;
    let layer = attention.with_parameters(&over(0.25))?;
    let other = Variant::full().with_kv_formats(KvFormats::parse("int8")?);
    let error = attention.with_parameters(&other).expect_err("other rows").to_string();
    assert!(error.contains("per_channel") && error.contains("int8"), "{error}");
    let options = attn::PlanOptions { layers: &[&layer], ..Default::default() };
    let mut workspace = engine.workspace();
    let plan = attention.plan_with(&Batch::ragged(&[0, 1], &[0, 2]), &mut workspace, options)?;
    // all codes of values are 4, so that O is 4 times the scale
    let (stream, q, rows) = (engine.stream()?, engine.upload(&[1f32; 256])?, engine.upload_bytes(&[4; 256])?);
    let run = |layer| -> Result<f32, Error> {
        let mut o = engine.alloc(Dtype::F32, 256)?;
        let rows = rows.tensor(&[2, 2, 64])?;
        let options = attn::RunOptions { layer, ..Default::default() };
        let out = Out::new(o.tensor_mut(&[1, 4, 64])?);
        plan.run_with(&stream, q.tensor(&[1, 4, 64])?, Kv::ragged(rows, rows), out, options)?;
        Ok(engine.download::<f32>(&o)?[7])
    };
    assert_eq!((run(None)?, run(Some(&layer))?), (2.0, 1.0));
    attention.set_tensor(&stream, "value_format.scales", &TensorContent::host(&[0.125f32; 128]))?;
    assert_eq!((run(None)?, run(Some(&layer))?), (0.5, 1.0));
    Ok(())
}
