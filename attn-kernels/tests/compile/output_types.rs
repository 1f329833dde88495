//! Kernels whose outputs have another type than queries compile, spill nothing, and are other kernels; where outputs
//! have the type of queries, the text says nothing of them.

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

#[test]
fn outputs_of_another_type_compile() {
    let latent = HeadDimVo::SharedWithKeys(512);
    let kernels = [
        (KernelKind::Prefill, "sm_90a", Dtypes::bf16(), HeadDimVo::Same),
        (KernelKind::Prefill, "sm_80", Dtypes::bf16(), HeadDimVo::Same),
        (KernelKind::Decode, "sm_90a", Dtypes::f16().with_kv(Dtype::E4m3), HeadDimVo::Same),
        (KernelKind::Decode, "sm_90a", Dtypes::bf16(), latent),
        (KernelKind::Decode, "sm_75", Dtypes::f32(), HeadDimVo::Same),
        (KernelKind::Mixed, "sm_90a", Dtypes::bf16(), HeadDimVo::Same),
    ];
    let mut sources = Vec::new();
    for (kind, arch, dtypes, head_dim_vo) in kernels {
        let own = source(kind, arch, dtypes, head_dim_vo);
        assert!(!own.text.contains("OutputElem") && !own.text.contains("store_output"), "{}", own.name);
        for o in [Dtype::E4m3, Dtype::F32].into_iter().filter(|o| *o != dtypes.qo) {
            let other = source(kind, arch, dtypes.with_output(o), head_dim_vo);
            assert!(other.text.contains("store_output(p, at, state.o)") && other.name.contains(&format!(" to {o} ")));
            assert_ne!(own.key(), other.key());
            sources.push(other);
        }
    }
    let Some(cache) = cache() else { return };
    for result in jit::obtain_all_from(&cache, sources, None, |_| {}) {
        let ready = result.expect("it compiles");
        let spills: u32 = ready.compiled.resources().iter().map(|r| r.spill_stores + r.spill_loads).sum();
        assert!(spills <= 64, "{}: {spills} bytes", ready.source.name);
    }
}
