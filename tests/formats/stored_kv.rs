//! A cache of transformed keys and values, through the public interface on the CPU.

use attn::{AttentionOptions, KvStored, lang::KvIndex, prelude::*};
use attn_testing::Host;
use attn_tests::setup::{BatchArrays, Tensors, Written, cpu_attention};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const PAGE: u32 = 4;

/// Queries and keys of each request.
type Lens = &'static [(u32, u32)];

/// The cache of an engine that applies `hooks` when it appends.
fn after(raw: &Tensors, hooks: &str, lens: Lens) -> Tensors {
    let hooks = Variant::parse(hooks).expect("stock").bind(&HEADS.dims()).expect("binds");
    let (mut k, mut v, mut token) = (raw.k.to_f32(), raw.v.to_f32(), 0);
    for (batch, &(_, kv_len)) in lens.iter().enumerate() {
        for kv_pos in 0..kv_len as i32 {
            for kv_head in 0..HEADS.kv as i32 {
                let at = KvIndex { batch: batch as i32, kv_pos, kv_token: token, kv_head, kv_len: kv_len as i32 };
                let row = (token * HEADS.kv as i32 + kv_head) as usize * HEADS.head_dim as usize;
                let row = row..row + HEADS.head_dim as usize;
                hooks.key_row(&mut k[row.clone()], at);
                hooks.value_row(&mut v[row], at);
            }
            token += 1;
        }
    }
    Tensors { k: Host::F32(k), v: Host::F32(v), ..raw.clone() }
}

/// Synthetic queries, keys and values of a batch.
fn raw(lens: Lens) -> Tensors {
    let [queries, keys] = [lens.iter().map(|(qo, _)| qo).sum::<u32>(), lens.iter().map(|(_, kv)| kv).sum()];
    Tensors::new(HEADS, queries as usize, &[keys as usize])
}

fn run(text: &str, stored: KvStored, cache: &Tensors, lens: Lens, paged: bool) -> Written {
    let attention = cpu_attention(text, HEADS, AttentionOptions { stored, ..AttentionOptions::default() });
    let (qo, kv): (Vec<u32>, Vec<u32>) = lens.iter().copied().unzip();
    let pages: u32 = kv.iter().map(|len| len.div_ceil(PAGE)).sum();
    let arrays = BatchArrays::new(&qo, &kv, paged.then_some([PAGE, pages]));
    let plan = attention.plan(&arrays.batch(), &mut Engine::cpu().workspace()).expect("plans");
    if paged { cache.in_pages(plan.layout(), [pages as usize, PAGE as usize]).run(&plan) } else { cache.run(&plan) }
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
            let raw = raw(lens);
            let filled = after(&raw, appended, lens);
            for paged in [false, true] {
                let want = run(text, KvStored::Raw, &raw, lens, paged);
                let got = run(text, KvStored::Transformed, &filled, lens, paged);
                assert_eq!(got, want, "{text} {lens:?} paged {paged}");
                assert!(want.o.iter().all(|x| x.is_finite()));
                let twice = run(text, KvStored::Raw, &filled, lens, paged);
                assert_ne!(twice.o, want.o, "{text} {lens:?}: transforming twice must show");
            }
        }
    }
}

#[test]
fn without_key_and_value_hooks_stored_kv_has_no_effect() {
    let lens = BATCHES[0];
    let cache = raw(lens);
    for text in ["causal + alibi", "full"] {
        let of = |stored| run(text, stored, &cache, lens, false);
        assert_eq!(of(KvStored::Raw), of(KvStored::Transformed), "{text}");
    }
}
