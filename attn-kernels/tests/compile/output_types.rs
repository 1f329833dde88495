//! Kernels whose outputs have another type than queries, or whose queries are stored as e4m3, compile, hardly spill,
//! and are other kernels. Elsewhere the text says nothing of these types.

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::lang::Dims;
use attn_core::spec::{HeadDimVo, KernelKind, PrefillBackend};
use attn_kernels::jit;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::KernelSource;

use crate::stock::{cache, variant};

fn source(kind: KernelKind, arch: &str, dtypes: Dtypes, head_dim_vo: HeadDimVo) -> KernelSource {
    let head_dim = if head_dim_vo == HeadDimVo::Same { 128 } else { 576 };
    let dims = Dims { qo_heads: Some(8), kv_heads: Some(2), head_dim: Some(head_dim.into()), ..Dims::default() };
    let variant = variant("causal + soft_cap(cap=30)").bind(&dims).expect("a parameter");
    let request = KernelTraitsRequest::new(kind, head_dim, dtypes, arch.parse().expect(arch));
    let prefill = if arch == "sm_90a" { PrefillBackend::Sm90 } else { PrefillBackend::Sm80 };
    let request = KernelTraitsRequest { group: 4, prefill, head_dim_vo, ..request.with_hooks([&variant]) };
    KernelSource::build(&variant, &KernelTraits::choose(&request).expect("supported")).expect("supported")
}

/// A kernel of each family.
const KERNELS: [(KernelKind, &str, Dtypes, HeadDimVo); 6] = [
    (KernelKind::Prefill, "sm_90a", Dtypes::bf16(), HeadDimVo::Same),
    (KernelKind::Prefill, "sm_80", Dtypes::bf16(), HeadDimVo::Same),
    (KernelKind::Decode, "sm_90a", Dtypes::f16().with_kv(Dtype::E4m3), HeadDimVo::Same),
    (KernelKind::Decode, "sm_90a", Dtypes::bf16(), HeadDimVo::SharedWithKeys(512)),
    (KernelKind::Decode, "sm_75", Dtypes::f32(), HeadDimVo::Same),
    (KernelKind::Mixed, "sm_90a", Dtypes::bf16(), HeadDimVo::Same),
];

/// The kernels with queries that are stored as e4m3, and with outputs of other types.
pub(crate) fn sources() -> Vec<KernelSource> {
    let of = |(kind, arch, dtypes, head_dim_vo): (KernelKind, &'static str, Dtypes, HeadDimVo)| {
        let outputs = [Dtype::E4m3, Dtype::F32].into_iter().filter(move |o| *o != dtypes.qo);
        let others = outputs.map(move |o| dtypes.with_output(o)).chain([dtypes.with_queries(Dtype::E4m3)]);
        others.map(move |dtypes| source(kind, arch, dtypes, head_dim_vo))
    };
    KERNELS.into_iter().flat_map(of).collect()
}

#[test]
fn outputs_of_another_type_compile() {
    let mut sources = Vec::new();
    for (kind, arch, dtypes, head_dim_vo) in KERNELS {
        let own = source(kind, arch, dtypes, head_dim_vo);
        let words = ["using OutputElem", "output_factor", "StoredQElem", "query_scale"];
        assert!(words.iter().all(|word| !own.text.contains(word)), "{}", own.name);
        let stored = source(kind, arch, dtypes.with_queries(Dtype::E4m3), head_dim_vo);
        assert!(stored.text.contains("query_scale(p)") && stored.name.contains(" from e4m3"), "{}", stored.name);
        sources.push(stored);
        for o in [Dtype::E4m3, Dtype::F32].into_iter().filter(|o| *o != dtypes.qo) {
            let other = source(kind, arch, dtypes.with_output(o), head_dim_vo);
            assert!(other.text.contains("store_output(p, at, state.o)") && other.name.contains(&format!(" to {o} ")));
            assert_ne!(own.key(), other.key());
            sources.push(other);
        }
    }
    let Some(cache) = cache() else { return };
    let spilled = jit::obtain_all_from(&cache, sources, None, |_| {}).into_iter().filter_map(|result| {
        let ready = result.expect("it compiles");
        let spills: u32 = ready.compiled.resources().iter().map(|r| r.spill_stores + r.spill_loads).sum();
        // rows of 576 elements, and decode beside prefill, spill anyway
        let most = if ready.source.name.contains(": mixed") || ready.source.name.contains(" 576 ") { 512 } else { 128 };
        (spills > most).then(|| format!("{}: {spills} bytes", ready.source.name))
    });
    assert_eq!(spilled.collect::<Vec<_>>(), [""; 0]);
}
