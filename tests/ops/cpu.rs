//! Ops through the public interface: their effect on attention, on the CPU.

use attn_tests::setup::descending_pages;
use attn_tests::synthetic::values;

use attn::lang::{AttentionVariant, KvIndex, Row, Tensor1};
use attn::ops::*;
use attn::{
    AttentionOptions, Batch, Dtype, Dtypes, Engine, Error, Heads, Kv, KvStored, Out, PageOrder, Variant, VariantParams,
    attention_variant,
};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };
/// Keys of two requests, and prefix sums of their last queries.
const LENS: ([u32; 2], [i32; 3]) = ([11, 5], [0, 3, 4]);

/// Runs attention over a pool that the keys were appended to.
fn attended(
    variant: &str,
    stored: KvStored,
    append: impl Fn(&Engine, &KvRef<'_>, &mut KvMut<'_>, &[i64], &[i32]),
) -> Vec<f32> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let engine = Engine::cpu();
    let table = descending_pages(&LENS.0, 4, 7);
    let whole = Batch::paged(&[0, 11, 16], &table.table()).validate().expect("sound");
    let slots = slots_of_new_keys(&whole).expect("pages");
    let positions: Vec<i32> = LENS.0.iter().flat_map(|&len| 0..len as i32).collect();
    let (k, v) = (
        engine.upload(&values(16 * 2 * 16, 1)).expect("memory"),
        engine.upload(&values(16 * 2 * 16, 2)).expect("memory"),
    );
    let mut pool = engine.upload(&[f32::NAN; 7 * 2 * 4 * 2 * 16]).expect("memory");
    let shape = [7, 2, 2, 4, 16];
    let rows = KvRef::new(k.tensor(&[16, 2, 16]).expect("fits"), v.tensor(&[16, 2, 16]).expect("fits"));
    let mut cache = KvMut::fused(pool.tensor_mut(&shape).expect("fits"), PageOrder::Hnd).expect("fused");
    append(&engine, &rows, &mut cache, &slots, &positions);

    let options = AttentionOptions { stored, ..AttentionOptions::default() };
    let variant = Variant::parse(variant).expect("stock");
    let attention = engine.attention_with(&variant, HEADS, Dtypes::f32(), options).expect("bound");
    let batch = Batch::paged(&LENS.1, &table.table());
    let plan = attention.plan(&batch, &mut engine.workspace()).expect("sound");
    let q = engine.upload(&values(4 * 4 * 16, 3)).expect("memory");
    let mut o = engine.alloc(Dtype::F32, 4 * 4 * 16).expect("memory");
    let kv = Kv::paged_fused(pool.tensor(&shape).expect("fits"), PageOrder::Hnd).expect("fused");
    let out = Out::new(o.tensor_mut(&[4, 4, 16]).expect("fits"));
    plan.run(&engine.stream().expect("a token"), q.tensor(&[4, 4, 16]).expect("fits"), kv, out).expect("runs");
    engine.download(&o).expect("f32")
}

#[test]
fn appending_through_the_transform_equals_transforming_in_the_kernel() {
    for variant in ["causal + qk_norm + rope", "rope(interleaved=true) + value_norm"] {
        let append = |transform: bool| {
            move |engine: &Engine, rows: &KvRef<'_>, cache: &mut KvMut<'_>, slots: &[i64], positions: &[i32]| {
                let variant = Variant::parse(variant).expect("stock");
                let through = KvTransform::new(engine, &variant, HEADS).expect("knows all that it reads");
                let slot_mapping =
                    SlotMapping::Slots { slots: Array::host(slots), positions: Some(Array::host(positions)) };
                let stream = engine.stream().expect("a token");
                append_paged(&stream, rows, cache, &Append::at(slot_mapping), transform.then_some(&through))
                    .expect("sound");
            }
        };
        let raw = attended(variant, KvStored::Raw, append(false));
        let transformed = attended(variant, KvStored::Transformed, append(true));
        let apart = raw.iter().zip(&transformed).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{variant}: {apart}");
        assert_ne!(raw, attended(variant, KvStored::Raw, append(true)), "the transform does something");
    }
}

/// Keys by their requests, which an append does not know.
#[derive(Clone, Debug, VariantParams)]
struct KeysOfRequests {
    #[shape(batch)]
    by: Tensor1<f32>,
}

#[attention_variant(name = "keys_of_requests")]
impl AttentionVariant for KeysOfRequests {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_, x| x * self.by[at.batch]);
    }
}

/// Keys by their rows, with a default over their number.
#[derive(Clone, Debug, VariantParams)]
struct KeysOfTokens {
    #[shape(kv_tokens)]
    #[default(|_, dims| vec![1.0; dims.kv_tokens.unwrap_or(0) as usize])]
    by: Tensor1<f32>,
}

#[attention_variant(name = "keys_of_tokens")]
impl AttentionVariant for KeysOfTokens {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_, x| x * self.by[at.kv_token]);
    }
}

#[test]
fn transforms_that_an_append_cannot_evaluate_are_refused_by_name() {
    let engine = Engine::cpu();
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let refused = |text: &str| {
        let variant = Variant::parse(text).expect("stock");
        KvTransform::new(&engine, &variant, HEADS).expect_err("not supported").to_string()
    };
    let error = refused("union(causal + rope, full)");
    assert!(error.contains("union"), "{error}");
    let by_request = Variant::from(KeysOfRequests { by: vec![0.5, 2.0].into() });
    let error = KvTransform::new(&engine, &by_request, HEADS).expect_err("not supported").to_string();
    assert!(error.contains("reads `batch` of a key") && error.contains("keys_of_requests"), "{error}");
    let by_token = Variant::from(KeysOfTokens { by: Tensor1::unset() });
    let error = KvTransform::new(&engine, &by_token, HEADS).expect_err("no number of tokens yet").to_string();
    assert!(error.contains("`by` is not set"), "{error}");
    // rope needs positions
    let rope = KvTransform::new(&engine, &Variant::parse("rope").expect("stock"), HEADS).expect("known");
    let rows = engine.upload(&values(32, 1)).expect("memory");
    let mut pool = engine.upload(&[0.0f32; 128]).expect("memory");
    let rows = KvRef::latent(rows.tensor(&[1, 2, 16]).expect("fits"));
    let mut cache = KvMut::latent(pool.tensor_mut(&[1, 4, 2, 16]).expect("fits"));
    let slot_mapping = SlotMapping::Slots { slots: Array::host(&[0]), positions: None };
    let stream = engine.stream().expect("a token");
    let error =
        append_paged(&stream, &rows, &mut cache, &Append::at(slot_mapping), Some(&rope)).expect_err("no positions");
    assert!(matches!(error, Error::Op(OpError::Positions { .. })), "{error}");
}

/// A transform is bound to the width of values; an append of keys alone has none to transform.
#[test]
fn transforms_take_values_of_their_width_or_none() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream().expect("a token"));
    let norm = KvTransform::new(&engine, &Variant::parse("value_norm").expect("stock"), HEADS).expect("known");
    let append = |width: usize| -> Result<Vec<f32>, Error> {
        let [k, v] = [16, width].map(|width| engine.upload(&values(2 * width, 1)).expect("memory"));
        let [mut k_pool, mut v_pool] =
            [16, width].map(|width| engine.upload(&vec![0.0f32; 4 * 2 * width]).expect("memory"));
        let rows = KvRef::new(k.tensor(&[1, 2, 16])?, v.tensor(&[1, 2, width])?);
        let mut pools = KvMut::new(k_pool.tensor_mut(&[1, 4, 2, 16])?, v_pool.tensor_mut(&[1, 4, 2, width])?);
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&[1]), positions: Some(Array::host(&[0])) };
        append_paged(&stream, &rows, &mut pools, &Append::at(slot_mapping), Some(&norm))?;
        engine.download_f32(&k_pool)
    };
    assert_eq!(append(0).expect("keys alone")[2 * 16..4 * 16], values(32, 1));
    append(16).expect("its width");
    for width in [8, 32] {
        let error = append(width).expect_err("another width").to_string();
        assert!(error.contains(&format!("v has {width} values per head")), "{error}");
    }
}

#[test]
fn partial_states_merge_to_the_state_over_all_keys() {
    let engine = Engine::cpu();
    let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
    let stream = engine.stream().expect("a token");
    let (k, v, q) = (values(9 * 32, 1), values(9 * 32, 2), values(64, 3));
    let over = |from: usize, to: usize| {
        let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, (to - from) as i32]), &mut engine.workspace());
        let part = |x: &[f32]| engine.upload(&x[from * 32..to * 32]).expect("memory");
        let (k, v, q) = (part(&k), part(&v), engine.upload(&q).expect("memory"));
        let (mut o, mut lse) =
            (engine.alloc(Dtype::F32, 64).expect("memory"), engine.alloc(Dtype::F32, 4).expect("memory"));
        let rows = |x| attn::DeviceBuffer::tensor(x, &[to - from, 2, 16]).expect("fits");
        let out = Out::with_lse(o.tensor_mut(&[1, 4, 16]).expect("fits"), lse.tensor_mut(&[1, 4]).expect("fits"));
        let q = q.tensor(&[1, 4, 16]).expect("fits");
        plan.expect("sound").run(&stream, q, Kv::ragged(rows(&k), rows(&v)), out).expect("runs");
        (o, lse)
    };
    let (whole, parts) = (over(0, 9), [over(0, 4), over(4, 9), over(9, 9)]);
    let state = |(o, lse): &(attn::DeviceBuffer, attn::DeviceBuffer)| {
        let o = engine.download::<f32>(o).expect("f32");
        (o, engine.download::<f32>(lse).expect("f32"))
    };
    let (o, lse): (Vec<_>, Vec<_>) = parts.iter().map(state).unzip();
    let (o, lse) = (o.concat(), lse.concat());
    let states = StateRef {
        o: attn::TensorRef::host(&o, &[1, 3, 4, 16]).expect("fits"),
        lse: attn::TensorRef::host(&lse, &[1, 3, 4]).expect("fits"),
    };
    let (mut o, mut lse) =
        (engine.alloc(Dtype::F32, 64).expect("memory"), engine.alloc(Dtype::F32, 4).expect("memory"));
    let out = Out::with_lse(o.tensor_mut(&[1, 4, 16]).expect("fits"), lse.tensor_mut(&[1, 4]).expect("fits"));
    merge_states(&stream, &states, out).expect("sound");
    lse_to_base_2(&stream, lse.tensor_mut(&[1, 4]).expect("fits")).expect("f32");
    let ((got, got_lse), (want, want_lse)) = (state(&(o, lse)), state(&whole));
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} {want:?}");
    assert!(got_lse.iter().zip(&want_lse).all(|(a, b)| (from_base_2(*a) - b).abs() < 1e-5), "{got_lse:?} {want_lse:?}");
}

#[test]
fn an_empty_status_is_refused() {
    let engine = Engine::cpu();
    let stream = engine.stream().expect("a token");
    let mut pool = engine.upload(&[1.0f32; 64]).expect("memory");
    let mut cache = KvMut::latent(pool.tensor_mut(&[2, 2, 1, 16]).expect("fits"));
    let other = engine.upload(&[2.0f32; 64]).expect("memory");
    let from = KvRef::latent(other.tensor(&[2, 2, 1, 16]).expect("fits"));
    let rows = KvRef::latent(other.tensor(&[1, 1, 16]).expect("fits"));
    let (pairs, none) = (Array::host(&[[0, 1]]), || ArrayMut::host(&mut []));
    let slot_mapping = SlotMapping::Slots { slots: Array::host(&[0]), positions: None };
    let append = Append { status: Some(none()), ..Append::at(slot_mapping) };
    for refused in [
        copy_pages(&stream, &mut cache, &pairs, Some(&none())),
        copy_pages_between(&stream, &from, &mut cache, &pairs, Some(&none())),
        append_paged(&stream, &rows, &mut cache, &append, None),
    ] {
        assert!(matches!(refused, Err(Error::Op(OpError::Len { array: "status", .. }))), "{refused:?}");
    }
    assert_eq!(engine.download::<f32>(&pool).expect("f32"), [1.0; 64]);
}
