//! Every op compiles for every generation of GPUs, without a spill, and so do appends through hooks.
use attn_core::{Registry, Variant, dtype::Dtype, lang::Hook, sampling::Source};
use attn_kernels::compile::Arch;
use attn_kernels::jit;
use attn_kernels::splice::{Op, OpSource};

use crate::stock::cache;

/// The most ops that a test compiles where it is a sample.
const SAMPLED_OPS: usize = 6;
const ARCHS: [&str; 3] = ["sm_90a", "sm_80", "sm_120"];
const GENERATIONS: [&str; 6] = ["sm_90a", "sm_75", "sm_80", "sm_89", "sm_100a", "sm_120"];

/// Every op, with all types of elements or with a few.
fn ops(all: bool) -> Vec<Op> {
    let halves = [Dtype::F16, Dtype::Bf16, Dtype::F32];
    let mut ops = vec![Op::Lse, Op::Copy, Op::XPacked, Op::Bits, Op::TensorRows];
    ops.extend(halves.map(Op::Merge));
    let pairs = halves.into_iter().flat_map(|a| Dtype::ALL.map(|b| (a, b)));
    // elements of every size, and both 8-bit types
    let few =
        [(Dtype::F16, Dtype::F16), (Dtype::Bf16, Dtype::E5m2), (Dtype::F32, Dtype::E4m3), (Dtype::F32, Dtype::Bf16)];
    for (a, b) in pairs.filter(|pair| all || few.contains(pair)) {
        ops.extend([Op::Append { from: a, to: b }, Op::Gather { from: b, to: a }]);
    }
    for same in [Dtype::E4m3, Dtype::E5m2].into_iter().filter(|_| all) {
        ops.extend([Op::Append { from: same, to: same }, Op::Gather { from: same, to: same }]);
    }
    ops
}

/// One variant for each way of transforming keys and values.
fn transforming(registry: &Registry) -> Vec<Variant> {
    let parse = |text: &str| Variant::parse_with(text, registry).expect(text);
    let variants = [
        "rope",
        "causal + qk_norm + rope",
        "rope(interleaved=true) + value_norm",
        "per_head(heads=[0, 1], rope, full)",
    ];
    let variants: Vec<_> = variants.into_iter().map(parse).collect();
    assert!(variants.iter().all(|variant| variant.has(Hook::KeyTransform)));
    variants
}

/// Every op with its number of kernels.
fn op_sources() -> Vec<(usize, OpSource)> {
    let of = |(i, arch): (usize, &str)| {
        let arch: Arch = arch.parse().expect("an architecture");
        ops(i == 0).into_iter().map(move |op| (op.kernels().len(), OpSource::build(op, arch).expect("a template")))
    };
    ARCHS.into_iter().enumerate().flat_map(of).collect()
}

/// Appends through the hooks of variants: from and to types of each width.
fn transform_sources(registry: &Registry) -> Vec<(usize, OpSource)> {
    let mut sources = Vec::new();
    for variant in transforming(registry) {
        for arch in ARCHS.map(|arch| arch.parse::<Arch>().expect("an architecture")) {
            for (from, to) in [(Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::E4m3), (Dtype::F32, Dtype::F16)] {
                sources.push((2, OpSource::transform(&variant, from, to, arch).expect("a variant")));
                // its unit has the kernels of appends too
                sources.push((4, OpSource::rotate_append(&variant, [from, to, to], arch).expect("a variant")));
            }
        }
    }
    sources
}

/// Sampling of every type, on a GPU of every generation, and in clusters where it has them.
fn sampling_sources() -> Vec<(usize, OpSource)> {
    let of = |(i, arch): (usize, &str)| {
        let arch: Arch = arch.parse().expect("an architecture");
        let types = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        let ops = types.into_iter().take(if i == 0 { 3 } else { 1 }).flat_map(|from| {
            [Source::Logits, Source::Probs].into_iter().flat_map(move |source| {
                let clusters = [false, true].into_iter().filter(move |cluster| !cluster || arch.major() >= 9);
                clusters.map(move |cluster| Op::Sample { from, source, cluster })
            })
        });
        ops.map(move |op| (op.kernels().len(), OpSource::build(op, arch).expect("a template"))).collect::<Vec<_>>()
    };
    GENERATIONS.into_iter().enumerate().flat_map(of).collect()
}

/// Verification of drafts on a GPU of every generation, and in clusters where it has them.
fn verification_sources() -> Vec<(usize, OpSource)> {
    let of = |arch: &str| {
        let arch: Arch = arch.parse().expect("an architecture");
        let clusters = [false, true].into_iter().filter(move |cluster| !cluster || arch.major() >= 9);
        let ops = clusters.flat_map(|cluster| [Op::VerifyChain { cluster }, Op::VerifyTree { cluster }]);
        ops.map(move |op| (op.kernels().len(), OpSource::build(op, arch).expect("a template"))).collect::<Vec<_>>()
    };
    GENERATIONS.into_iter().flat_map(of).collect()
}

/// Indexers of models, of every type, and the choice, on a GPU of every generation.
fn indexer_sources() -> Vec<(usize, OpSource)> {
    let of = |arch: &str| {
        let arch: Arch = arch.parse().expect("an architecture");
        // DeepSeek-V3.2; MiniMax-M3; few heads, and the largest
        let shapes = [(64, 128, false), (4, 128, true), (1, 32, false), (64, 256, false), (128, 128, true)];
        let scores = shapes.into_iter().flat_map(|(heads, dim, blocks)| {
            [Dtype::Bf16, Dtype::F16].map(|of| Op::IndexScores { of, heads, dim, blocks })
        });
        let clusters = [false, true].into_iter().filter(move |cluster| !cluster || arch.major() >= 9);
        let ops = scores.chain(clusters.map(|cluster| Op::Select { cluster }));
        ops.map(move |op| (op.kernels().len(), OpSource::build(op, arch).expect("a template"))).collect::<Vec<_>>()
    };
    GENERATIONS.into_iter().flat_map(of).collect()
}

/// All op kernels, in one fixed order.
pub(crate) fn sources(registry: &Registry) -> Vec<OpSource> {
    let sampling = sampling_sources().into_iter().chain(verification_sources()).chain(indexer_sources());
    let all = op_sources().into_iter().chain(sampling).chain(transform_sources(registry));
    all.map(|(_, source)| source).collect()
}

/// Compiles a sample of sources, each with the number of kernels that it must have, which may spill `budget` bytes.
fn compile(sources: Vec<(usize, OpSource)>, budget: u32) {
    let Some(cache) = cache() else { return };
    let sources = attn_needs::sample(sources, SAMPLED_OPS);
    let (wanted, sources): (Vec<usize>, Vec<OpSource>) = sources.into_iter().unzip();
    let mut failed = Vec::new();
    jit::obtain_all_from(&cache, sources, None, |done| match done.result {
        Err(error) => failed.push(format!("{}: {error}", done.name)),
        Ok((compiled, _)) => {
            let resources = compiled.resources();
            let spills: u32 = resources.iter().map(|r| r.spill_stores + r.spill_loads).sum();
            if resources.len() != wanted[done.index] || spills > budget {
                failed.push(format!("{}: {resources:?}", done.name));
            }
        }
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_op_compiles_and_spills_nothing() {
    compile(op_sources(), 0);
}

#[test]
fn sampling_compiles_within_a_spill_budget() {
    // two CTAs of the kernel for many rows are on an SM, which leaves 64 registers; what is rare spills
    compile(sampling_sources(), 2560);
}

#[test]
fn verification_compiles_and_spills_nothing() {
    compile(verification_sources(), 0);
}

#[test]
fn indexers_compile_and_spill_nothing() {
    compile(indexer_sources(), 0);
}

#[test]
fn appends_through_hooks_compile() {
    compile(transform_sources(&super::registry()), 0);
}
