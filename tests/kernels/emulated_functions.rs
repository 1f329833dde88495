//! The functions that the emulator of kernels replaces run on a GPU alone. This is their list, so that none is added
//! unnoticed.

use std::collections::BTreeSet;

use attn_core::{
    dtype::{Dtype, Dtypes},
    expr::Variant,
    sampling::Source,
    spec::{ComputeType, HeadDimVo, KernelKind, PrefillBackend},
};
use attn_kernels::{
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, Op, OpSource},
};
use attn_tests::{golden, simt::replaced};

/// All kernel families and ops. Headers are included whole, whatever the variant.
#[test]
fn the_functions_that_run_on_a_gpu_alone_are_listed() {
    let arch = "90a".parse().expect("an architecture");
    let kernel_of = |kind, prefill, head_dim| {
        let request = KernelTraitsRequest::new(kind, head_dim, Dtypes::f16(), arch);
        let request = KernelTraitsRequest { prefill, skip_softmax: true, ..request };
        let traits = KernelTraits::choose(&request).expect("supported");
        KernelSource::build(&Variant::full(), &traits).expect("supported").text
    };
    let kernel = |kind, prefill| kernel_of(kind, prefill, 128);
    let e4m3_compute = {
        let dtypes = Dtypes::new(Dtype::F16, Dtype::E4m3);
        let request = KernelTraitsRequest {
            compute_type: ComputeType::E4m3,
            ..KernelTraitsRequest::new(KernelKind::Prefill, 128, dtypes, arch)
        };
        let traits = KernelTraits::choose(&request).expect("supported");
        KernelSource::build(&Variant::full(), &traits).expect("supported").text
    };
    let packed = {
        let dtypes = Dtypes::f16().with_kv_format("int8").expect("a stock format");
        let variant = Variant::full().over(dtypes, HeadDimVo::Same).expect("bytes").0;
        let request = KernelTraitsRequest::new(KernelKind::Decode, 128, dtypes, arch);
        KernelSource::build(&variant, &KernelTraits::choose(&request).expect("supported")).expect("supported").text
    };
    let latent = {
        let dtypes = Dtypes::new(Dtype::F16, Dtype::E4m3);
        let request = KernelTraitsRequest {
            head_dim_vo: HeadDimVo::SharedWithKeys(512),
            ..KernelTraitsRequest::new(KernelKind::Prefill, 576, dtypes, arch)
        };
        KernelSource::build(&Variant::full(), &KernelTraits::choose(&request).expect("supported"))
            .expect("supported")
            .text
    };
    let op = |op| OpSource::build(op, arch).expect("a template").text;
    let (from, to) = (Dtype::F16, Dtype::E4m3);
    let texts = [
        kernel(KernelKind::Prefill, PrefillBackend::Sm80),
        kernel(KernelKind::Prefill, PrefillBackend::Sm90),
        kernel_of(KernelKind::Prefill, PrefillBackend::Sm90, 256),
        kernel(KernelKind::Prefill, PrefillBackend::Sm90Resident),
        kernel(KernelKind::Prefill, PrefillBackend::CudaCores),
        kernel(KernelKind::Decode, PrefillBackend::Sm80),
        kernel(KernelKind::Mixed, PrefillBackend::Sm80),
        packed,
        e4m3_compute,
        latent,
        op(Op::Append { from, to }),
        op(Op::Gather { from: to, to: from }),
        op(Op::Merge(from)),
        op(Op::Lse),
        op(Op::Copy),
        op(Op::XPacked),
        op(Op::Bits),
        op(Op::TensorRows),
        op(Op::Sample { from, source: Source::Logits, cluster: false }),
        op(Op::VerifyChain { cluster: false }),
        op(Op::VerifyTree { cluster: false }),
    ];
    let all: BTreeSet<String> = texts.iter().flat_map(|text| replaced(text)).collect();
    let all = all.into_iter().map(|function| function + "\n").collect::<String>();
    golden::compare("kernels/emulated_functions.txt", &all);
}
