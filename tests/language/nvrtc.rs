//! The variants that exercise the language compile as CUDA too, with every hook called. No GPU is needed, NVRTC is:
//! `cargo xtask test` fetches it.

use attn_kernels::compile::{Arch, Compiler};
use attn_kernels::splice::variant::parts_source;
use attn_needs::{Need, needed};
use attn_tests::{corner_cases, host, language_stress, tables};
use rayon::prelude::*;

/// Calls every hook, so that none of them is compiled away.
const KERNEL: &str = "
extern \"C\" __global__ void all_hooks(Variant v, float* x, const LogitIndex* at, const KvIndex* kv, const Tile* tile) {
  x[0] = v.logits_mask(*at) ? v.logits_transform(x[0], *at) : v.weight(x[0], x[1], *at);
  x[1] = v.sink_logit(*at) + float(int(v.tile_class(*tile)));
  query(&v, x, 16, at);
  key(&v, x + 16, 16, kv);
  RowState state{x[2], x[3], x[4]};
  output(&v, x + 32, 16, &state, at);
}
";

const ARCHS: [&str; 3] = ["sm_90a", "sm_80", "sm_120"];

/// Hooks have one text for all architectures, so each variant is compiled for one, the next for the next.
#[test]
fn every_stock_variant_and_every_test_variant_compiles_as_cuda() {
    compile(|at| vec![ARCHS[at % ARCHS.len()]]);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn every_variant_compiles_for_every_generation() {
    compile(|_| ARCHS.to_vec());
}

/// Compiles the n-th variant for architectures.
fn compile(archs: impl Fn(usize) -> Vec<&'static str>) {
    let Some(compiler) = needed(Need::Nvrtc, Compiler::find()) else { return };
    let own = [language_stress::variants(), corner_cases::variants(), tables::variants()];
    let all = [attn_variants::variants()].into_iter().chain(own).flatten();
    let all: Vec<_> =
        all.enumerate().flat_map(|(at, desc)| archs(at).into_iter().map(move |arch| (desc, arch))).collect();
    let lang = host::lang();
    all.into_par_iter().for_each(|(desc, arch)| {
        let text = parts_source(&[desc]).expect("one part");
        let source = format!("{lang}\n{text}\n#line 1 \"harness\"\n{}\n{KERNEL}", host::HARNESS);
        let arch: Arch = arch.parse().expect("an architecture");
        if let Err(error) = compiler.compile(desc.name, &source, arch) {
            panic!("{}, {arch}: {error}\n{text}", desc.name);
        }
    });
}
