//! Kernels over rows of KV formats: every stock format in every kernel family.

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::lang::kv_format::KvFormats;
use attn_core::spec::KernelKind::{self, Decode, Mixed, Prefill};
use attn_core::spec::{DecodeBackend, HeadDimVo, PrefillBackend};
use attn_core::{Registry, Variant};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, OpSource};

/// The stock formats, each with keys or with values.
const FORMATS: [&str; 6] = [
    "int8",
    "int4(group=32)",
    "int4(group=32, zero=true)",
    "nvfp4 / mx_fp8",
    "turbo4 / int8",
    "bf16 / per_channel(bits=4)",
];

/// A kernel, its architecture, whether it runs on CUDA cores, and a head dimension.
const KERNELS: [(KernelKind, &str, bool, u32); 8] = [
    (Decode, "sm_90a", false, 128),
    (Decode, "sm_80", false, 64),
    (Decode, "sm_100a", false, 256),
    (Decode, "sm_75", true, 128),
    (Prefill, "sm_75", true, 64),
    (Prefill, "sm_90a", false, 128),
    (Mixed, "sm_90a", false, 128),
    (Mixed, "sm_90a", false, 256),
];

fn kernel(
    registry: &Registry,
    (formats, expr): (&str, &str),
    (kind, arch, cuda_cores, head_dim): (KernelKind, &str, bool, u32),
    values: HeadDimVo,
    group: u32,
) -> KernelSource {
    let formats = KvFormats::parse_with(formats, registry).expect(formats);
    let variant = Variant::parse_with(expr, registry).expect(expr).with_kv_formats(formats);
    let (variant, dtypes) = variant.over(Dtypes::new(Dtype::Bf16, Dtype::U8), values).expect("bytes");
    let request = KernelTraitsRequest {
        head_dim_vo: values,
        group,
        prefill: if cuda_cores { PrefillBackend::CudaCores } else { PrefillBackend::default() },
        decode: cuda_cores.then_some(DecodeBackend::CudaCores),
        ..KernelTraitsRequest::new(kind, head_dim, dtypes, arch.parse().expect(arch)).with_hooks([&variant])
    };
    let traits = KernelTraits::choose(&request).expect("kernel traits");
    KernelSource::build(&variant, &traits).expect("supported")
}

/// The kernels of attention. Every format has every kernel, without a hook on rows or with one. Latent prefill decodes
/// keys of many heads in clusters.
pub(crate) fn kernels(registry: &Registry) -> Vec<KernelSource> {
    let points = FORMATS.into_iter().enumerate().flat_map(|(at, formats)| {
        KERNELS.into_iter().enumerate().map(move |(number, kernel)| {
            let expr = if (at + number) % 2 == 0 { "causal" } else { "causal + rope + value_norm" };
            ((formats, expr), kernel)
        })
    });
    let latent = [Decode, Prefill].into_iter().flat_map(|kind| {
        [("sm_90a", false), ("sm_80", false), ("sm_75", true)].map(|(arch, cuda_cores)| (kind, arch, cuda_cores, 576))
    });
    let values = HeadDimVo::SharedWithKeys(512);
    let latent = latent.map(|of| kernel(registry, ("ds_mla", "causal"), of, values, 16));
    let clusters = [("ds_mla", "causal"), ("int4(group=32)", "token_list(max_tokens=2048)")];
    let clusters = clusters.map(|of| kernel(registry, of, (Prefill, "sm_90a", false, 576), values, 128));
    points.map(|(of, point)| kernel(registry, of, point, HeadDimVo::Same, 4)).chain(latent).chain(clusters).collect()
}

/// Appends to pools of each format, and gathers from them.
pub(crate) fn ops(registry: &Registry) -> Vec<OpSource> {
    let mut ops = Vec::new();
    for (at, formats) in FORMATS.into_iter().chain(["ds_mla"]).enumerate() {
        let of_keys = KvFormats::parse_with(formats, registry).expect(formats);
        let expr = ["full", "rope"][at % 2];
        let variant = Variant::parse_with(expr, registry).expect(expr).with_kv_formats(of_keys);
        for (arch, dtype) in [("sm_90a", Dtype::Bf16), ("sm_75", Dtype::F32)] {
            let arch = arch.parse().expect(arch);
            ops.push(OpSource::encode(&variant, dtype, arch).expect("a template"));
            ops.push(OpSource::gather_packed(&variant, dtype, arch).expect("a template"));
        }
    }
    ops
}
