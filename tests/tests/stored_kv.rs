//! A cache of transformed keys and values, through the public interface on the CPU.

extern crate facade as attn;

use attn::{AttentionOptions, KvStored, Out, batch::indptr, lang::KvIndex, prelude::*};
use attn_tests::setup::descending_pages;
use attn_tests::synthetic::values;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const PAGE: u32 = 4;

/// Queries and keys of each request.
type Lens = &'static [(u32, u32)];

/// A cache with packed tokens.
#[derive(Clone)]
struct Cache {
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Cache {
    fn raw(tokens: usize) -> Self {
        let row = (HEADS.kv * HEADS.head_dim) as usize;
        Cache { k: values(tokens * row, 1), v: values(tokens * row, 2) }
    }

    /// The cache of an engine that applies `hooks` when it appends.
    fn after(&self, hooks: &str, lens: Lens) -> Self {
        let hooks = Variant::parse(hooks).expect("stock").bind(&HEADS.dims());
        let (hooks, mut cache, mut token) = (hooks.expect("binds"), self.clone(), 0);
        for (batch, &(_, kv_len)) in lens.iter().enumerate() {
            for kv_pos in 0..kv_len as i32 {
                for kv_head in 0..HEADS.kv as i32 {
                    let at = KvIndex { batch: batch as i32, kv_pos, kv_token: token, kv_head, kv_len: kv_len as i32 };
                    let row = (token * HEADS.kv as i32 + kv_head) as usize * HEADS.head_dim as usize;
                    let row = row..row + HEADS.head_dim as usize;
                    hooks.key_row(&mut cache.k[row.clone()], at);
                    hooks.value_row(&mut cache.v[row], at);
                }
                token += 1;
            }
        }
        cache
    }
}

/// Output and log-sum-exp.
fn run(text: &str, stored: KvStored, cache: &Cache, lens: Lens, paged: bool) -> (Vec<f32>, Vec<f32>) {
    let engine = Engine::cpu();
    let options = AttentionOptions { stored, ..AttentionOptions::default() };
    let variant = Variant::parse(text).expect("stock");
    let attention = engine.attention_with(&variant, HEADS, Dtypes::f32(), options).expect("binds");
    let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
    let pages: u32 = kv.iter().map(|len| len.div_ceil(PAGE)).sum();
    let table = descending_pages(&kv, PAGE, pages);
    let (qo_indptr, kv_indptr) = (indptr(&qo).expect("short"), indptr(&kv).expect("short"));
    let batch = if paged { Batch::paged(&qo_indptr, &table.table()) } else { Batch::ragged(&qo_indptr, &kv_indptr) };
    let plan = attention.plan(&batch, &mut engine.workspace()).expect("plans");
    let (row, tokens) = ((HEADS.kv * HEADS.head_dim) as usize, kv_indptr[kv.len()] as usize);
    let in_pages = |data: &[f32]| {
        let mut pool = vec![f32::NAN; (pages * PAGE) as usize * row];
        let pages = plan.layout().pages().expect("paged");
        for (request, &len) in kv.iter().enumerate() {
            for key in 0..len as usize {
                let (page, slot) = pages.locate(request, key);
                let (from, to) = (kv_indptr[request] as usize + key, page * PAGE as usize + slot);
                pool[to * row..][..row].copy_from_slice(&data[from * row..][..row]);
            }
        }
        pool
    };
    let (k, v) = if paged { (in_pages(&cache.k), in_pages(&cache.v)) } else { (cache.k.clone(), cache.v.clone()) };
    let (heads, dim) = (HEADS.kv as usize, HEADS.head_dim as usize);
    let pool = [pages as usize, PAGE as usize, heads, dim];
    let shape = if paged { &pool[..] } else { &[tokens, heads, dim] };
    let (k, v) = (TensorRef::host(&k, shape).expect("fits"), TensorRef::host(&v, shape).expect("fits"));
    let kv = if paged { Kv::paged(k, v) } else { Kv::ragged(k, v) };
    let queries = qo_indptr[qo.len()] as usize;
    let q = values(queries * 4 * dim, 3);
    let (mut o, mut lse) = (vec![f32::NAN; q.len()], vec![f32::NAN; queries * 4]);
    let out = Out::with_lse(
        TensorMut::host(&mut o, &[queries, 4, dim]).expect("fits"),
        TensorMut::host(&mut lse, &[queries, 4]).expect("fits"),
    );
    let q = TensorRef::host(&q, &[queries, 4, dim]).expect("fits");
    plan.run(&engine.stream().expect("a token"), q, kv, out).expect("runs");
    (o, lse)
}

const BATCHES: [Lens; 3] = [&[(30, 30), (5, 90)], &[(1, 70), (1, 3), (1, 130)], &[(7, 20), (0, 5), (1, 9), (4, 4)]];

#[test]
fn a_transformed_cache_gives_the_same_result() {
    // a variant, and the hooks that the engine applies when it appends
    for (text, appended) in [
        ("causal + rope", "rope"),
        ("causal + rope + value_norm", "rope + value_norm"),
        ("qk_norm + rope(theta=500)", "qk_norm + rope(theta=500)"),
        ("causal + per_head(heads=[0, 0, 1, 1], rope, value_norm)", "per_head(heads=[0, 0, 1, 1], rope, value_norm)"),
        ("rope + union(causal + sliding_window(window=9), not(causal) + soft_cap(cap=3))", "rope"),
        ("union(causal + rope, not(causal) + rope)", "rope"),
        (
            "remap(chunk_positions(qo_start=3, kv_start=3), rope)",
            "remap(chunk_positions(qo_start=3, kv_start=3), rope)",
        ),
    ] {
        for lens in BATCHES {
            let raw = Cache::raw(lens.iter().map(|(_, kv)| *kv as usize).sum());
            let filled = raw.after(appended, lens);
            for paged in [false, true] {
                let want = run(text, KvStored::Raw, &raw, lens, paged);
                let got = run(text, KvStored::Transformed, &filled, lens, paged);
                assert_eq!(got, want, "{text} {lens:?} paged {paged}");
                assert!(want.0.iter().all(|x| x.is_finite()));
                let twice = run(text, KvStored::Raw, &filled, lens, paged);
                assert_ne!(twice.0, want.0, "{text} {lens:?}: transforming twice must show");
            }
        }
    }
}

#[test]
fn without_key_and_value_hooks_stored_kv_has_no_effect() {
    let lens = BATCHES[0];
    let cache = Cache::raw(120);
    for text in ["causal + alibi", "full"] {
        let of = |stored| run(text, stored, &cache, lens, false);
        assert_eq!(of(KvStored::Raw), of(KvStored::Transformed), "{text}");
    }
}
