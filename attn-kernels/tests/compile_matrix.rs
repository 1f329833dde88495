//! Every stock variant compiles for every architecture, in both kernels, and spills no more than `spill_budget.txt` allows.
//!
//! No GPU is needed, NVRTC is: `cargo xtask test` fetches it. Cubins come from the cache where nothing has changed.
#![allow(clippy::print_stderr)]

use std::collections::HashSet;

use attn_core::{
    Registry, Variant,
    dtype::{Dtype, Dtypes},
    lang::{FieldDesc, FieldType, VariantDesc},
    spec::{
        KernelKind::{self, Decode, Mixed, Prefill},
        PrefillTemplate, ValueRows,
    },
};
use attn_kernels::{
    cell::{Cell, CellRequest},
    compile::{Arch, Compiler, serialised_products},
    jit,
    splice::{KernelSource, PlannerSource, Unit, has_key_hooks, has_key_list, has_value_hooks},
};
use rayon::prelude::*;

const ARCHS: [&str; 6] = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"];

/// What models put together; the compositions with most registers.
const COMPOSITIONS: [&str; 3] =
    ["causal + sliding_window(window=1) + soft_cap(cap=1)", "causal + alibi + sink", "causal + qk_norm + rope"];

/// One variant for each hook that the above have not, and what goes together with it.
const HOOKS: [&str; 8] = [
    "causal + value_norm",
    "causal + rope + value_norm",
    "causal + softpick + sink",
    "causal + dropout(rate=0.5)",
    "causal + page_list(page_size=16, max_pages=4)",
    "causal + token_list(max_tokens=8) + rope + value_norm",
    "causal + logits_dump(columns=8)",
    "causal + max_logit",
];

/// What decode does differently with more rows in a tile, or with keys and values of 8 bits: nothing, hooks of queries, keys and values, of
/// logits, weights of a variant's own, lists, and stores.
const SPREAD: [&str; 6] = [
    "full",
    "causal + rope + value_norm",
    "causal + alibi + sink",
    "causal + softpick + sink",
    "causal + token_list(max_tokens=8) + rope + value_norm",
    "causal + logits_dump(columns=8)",
];

struct Point {
    expr: String,
    kind: KernelKind,
    arch: &'static str,
    head_dim: u32,
    values: ValueRows,
    dtypes: Dtypes,
    paged: bool,
    group: u32,
    shared_rows: bool,
    prefill: PrefillTemplate,
}

impl Point {
    fn new(expr: &str, kind: KernelKind, arch: &'static str) -> Self {
        let (head_dim, values, dtypes) = (128, ValueRows::Same, Dtypes::bf16());
        let (shared_rows, prefill) = (false, PrefillTemplate::default());
        Point {
            expr: expr.to_owned(),
            kind,
            arch,
            head_dim,
            values,
            dtypes,
            paged: true,
            group: 4,
            shared_rows,
            prefill,
        }
    }

    fn source(&self, registry: &Registry) -> KernelSource {
        let &Point { kind, head_dim, values, dtypes, paged, group, .. } = self;
        let variant = Variant::parse_with(&self.expr, registry).expect(&self.expr);
        let arch: Arch = self.arch.parse().expect(self.arch);
        let cell = Cell::choose(&CellRequest {
            kind,
            head_dim,
            values,
            dtypes,
            paged,
            group,
            key_hooks: has_key_hooks(&variant),
            value_hooks: has_value_hooks(&variant),
            key_lists: has_key_list(&variant),
            template: self.prefill,
            arch,
        });
        let cell = cell.expect("a cell");
        let cell = if self.shared_rows { cell.with_shared_rows() } else { cell };
        KernelSource::build(&variant, &cell).expect("supported")
    }
}

/// Every registered variant, with a value for each parameter that must be given: which one is not in the text.
fn registered(registry: &Registry) -> Vec<String> {
    let given = |field: &&FieldDesc| field.default.is_none() && matches!(field.ty, FieldType::Scalar(_));
    let expr = |desc: &VariantDesc, value: &str| {
        let params: Vec<_> = desc.fields.iter().filter(given).map(|field| format!("{}={value}", field.name)).collect();
        format!("{}({})", desc.name, params.join(", "))
    };
    let parses = |expr: &String| Variant::parse_with(expr, registry).is_ok();
    let of = |desc| ["1", "0.5"].map(|value| expr(desc, value)).into_iter().find(parses).expect(desc.name);
    registry.iter().map(of).collect()
}

/// Every variant on every architecture at head_dim 128, bf16, paged; the rest of the grid for a few. A decode tile has 8 rows for groups up to 8, else 16.
fn points(registry: &Registry) -> Vec<Point> {
    let mut points = Vec::new();
    for kind in [Prefill, Decode] {
        for arch in ARCHS {
            points.extend(registered(registry).iter().map(|expr| Point::new(expr, kind, arch)));
        }
        for arch in ["sm_80", "sm_120"] {
            points.extend(HOOKS.iter().map(|expr| Point::new(expr, kind, arch)));
        }
        for expr in HOOKS {
            points.push(Point { dtypes: Dtypes::f16(), paged: false, ..Point::new(expr, kind, "sm_90a") });
            points.extend([64, 256].map(|head_dim| Point { head_dim, ..Point::new(expr, kind, "sm_90a") }));
        }
        for arch in ["sm_80", "sm_90a"] {
            points.extend(COMPOSITIONS.iter().map(|expr| Point::new(expr, kind, arch)));
            for expr in ["full", COMPOSITIONS[0], COMPOSITIONS[2]] {
                for head_dim in [64, 256] {
                    points.push(Point { head_dim, ..Point::new(expr, kind, arch) });
                }
            }
        }
        points.push(Point { dtypes: Dtypes::f16(), ..Point::new("causal", kind, "sm_90a") });
        points.push(Point { paged: false, ..Point::new("causal", kind, "sm_90a") });
        points.push(Point { paged: false, ..Point::new("rope", kind, "sm_90a") });
        points.extend(fp8(kind));
    }
    for expr in SPREAD.iter().chain(&COMPOSITIONS[2..]) {
        for (arch, head_dim) in [("sm_80", 128), ("sm_90a", 64), ("sm_90a", 128), ("sm_120", 128)] {
            points.push(Point { head_dim, group: 16, ..Point::new(expr, Decode, arch) });
        }
    }
    points
}

/// Both families in one kernel: that the templates of each stand in a namespace, with and without rows of several requests. What hooks do in them is
/// checked of each family.
fn mixed() -> Vec<Point> {
    let on = |expr: &str, arch| Point::new(expr, Mixed, arch);
    let mut points = Vec::new();
    for expr in SPREAD.iter().filter(|expr| !expr.contains("token_list")).chain(&COMPOSITIONS) {
        for shared_rows in [false, true] {
            points.push(Point { shared_rows, ..on(expr, "sm_90a") });
        }
    }
    for shared_rows in [false, true] {
        points.push(Point { shared_rows, paged: false, group: 16, ..on("causal", "sm_90a") });
        points.push(Point { shared_rows, paged: false, ..on("causal + rope", "sm_80") });
        points.push(Point { shared_rows, head_dim: 256, ..on("causal", "sm_90a") });
        points.push(Point { shared_rows, head_dim: 64, ..on("documents", "sm_80") });
        points.push(Point {
            shared_rows,
            dtypes: Dtypes::bf16().with_kv(Dtype::E4m3),
            ..on("causal + rope", "sm_90a")
        });
    }
    points.push(on("causal", "sm_120"));
    points
}

/// Prefill in warpgroups, beyond the grid of every architecture: widths, types and layouts with a few; and the other template on Hopper.
fn warpgroups(registry: &Registry) -> Vec<Point> {
    let on = |expr: &str| Point::new(expr, Prefill, "sm_90a");
    let mut points: Vec<_> = HOOKS.into_iter().chain(COMPOSITIONS).map(on).collect();
    for expr in SPREAD {
        let of = |head_dim| Point { head_dim, paged: false, dtypes: Dtypes::f16(), ..on(expr) };
        points.extend([16, 64, 80, 128, 256].map(of));
        points.push(Point { dtypes: Dtypes::bf16().with_kv(Dtype::E4m3), ..on(expr) });
        points.push(Point { values: ValueRows::Dim(64), ..on(expr) });
    }
    points.retain(|point| point.source(registry).cell.in_warpgroups());
    points.extend(SPREAD.iter().map(|expr| Point { prefill: PrefillTemplate::Mma, ..on(expr) }));
    points
}

/// A sample of widths: short, odd and long rows, values of another width and of the keys.
fn widths() -> Vec<Point> {
    let widths = [
        (16, ValueRows::Same),
        (80, ValueRows::Same),
        (240, ValueRows::Same),
        (192, ValueRows::Dim(128)),
        (512, ValueRows::Same),
        (576, ValueRows::OfKeys(512)),
    ];
    let e4m3 = Dtypes::bf16().with_kv(Dtype::E4m3);
    let of = |(kind, (head_dim, values))| {
        let point = |expr, arch| Point { head_dim, values, ..Point::new(expr, kind, arch) };
        [
            point("causal", "sm_90a"),
            Point { dtypes: e4m3, ..point("causal + rope + value_norm", "sm_80") },
            point("causal + rope + value_norm", "sm_90a"),
            point("causal + output_norm", "sm_120"),
        ]
    };
    [Prefill, Decode].into_iter().flat_map(|kind| widths.map(|width| (kind, width))).flat_map(of).collect()
}

/// Keys and values of 8 bits: architectures with and without an instruction that makes them f16.
fn fp8(kind: KernelKind) -> Vec<Point> {
    let over = |qo: Dtypes, kv, expr, arch| Point { dtypes: qo.with_kv(kv), ..Point::new(expr, kind, arch) };
    let e4m3 = |expr, arch| over(Dtypes::bf16(), Dtype::E4m3, expr, arch);
    let mut points = Vec::new();
    for expr in SPREAD {
        points.extend(["sm_80", "sm_90a", "sm_120"].map(|arch| e4m3(expr, arch)));
        points.extend([64, 256].map(|head_dim| Point { head_dim, ..e4m3(expr, "sm_90a") }));
        points.push(over(Dtypes::f16(), Dtype::E5m2, expr, "sm_90a"));
        if kind == Decode {
            points.push(Point { group: 16, ..e4m3(expr, "sm_90a") });
        }
    }
    for head_dim in [64, 256] {
        points.push(Point { head_dim, paged: false, ..over(Dtypes::bf16(), Dtype::E5m2, SPREAD[1], "sm_80") });
    }
    points
}

/// A line of the budget: `kernel, words of the source's name = bytes`.
struct Allowance {
    kernel: &'static str,
    words: &'static str,
    bytes: u32,
}

fn budget() -> Vec<Allowance> {
    let lines = include_str!("spill_budget.txt").lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (what, bytes) = line.rsplit_once('=').expect("kernel, words = bytes");
            let (kernel, words) = what.split_once(',').expect("kernel, words");
            Allowance { kernel: kernel.trim(), words: words.trim(), bytes: bytes.trim().parse().expect("bytes") }
        })
        .collect()
}

/// The most generous line that fits; what no line fits may not spill.
fn allowed(budget: &[Allowance], kernel: &str, name: &str) -> u32 {
    let fits = |a: &&Allowance| a.kernel == kernel && name.contains(a.words);
    budget.iter().filter(fits).map(|a| a.bytes).max().unwrap_or(0)
}

#[test]
fn mixed_kernels_compile_within_their_budget() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have names of their own");
    compile_each_once(mixed().iter().map(|point| point.source(&registry)).collect());
}

#[test]
fn prefill_in_warpgroups_compiles_within_its_budget() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have names of their own");
    let points = warpgroups(&registry);
    assert!(points.len() > SPREAD.len() * 6, "but for lists, all of them");
    compile_each_once(points.iter().map(|point| point.source(&registry)).collect());
}

#[test]
fn every_stock_variant_compiles_everywhere_within_its_budget() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have names of their own");
    let sources: Vec<_> = points(&registry).iter().map(|point| point.source(&registry)).collect();
    compile_each_once(sources);
}

#[test]
fn a_sample_of_widths_compiles_within_its_budget() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have names of their own");
    compile_each_once(widths().iter().map(|point| point.source(&registry)).collect());
}

/// The kernel that plans on a device: one for all variants of whose tiles nothing is known, else one for each.
#[test]
fn every_stock_variant_is_planned_for_everywhere() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("stock variants have names of their own");
    let source = |expr: &str, arch: &str| {
        let variant = Variant::parse_with(expr, &registry).expect(expr);
        PlannerSource::build(&variant, arch.parse().expect(arch)).expect("supported")
    };
    let exprs = [registered(&registry), COMPOSITIONS.map(str::to_owned).to_vec()].concat();
    let sources: Vec<_> = exprs.iter().flat_map(|expr| ARCHS.map(|arch| source(expr, arch))).collect();
    assert!(compile_each_once(sources) < exprs.len() * ARCHS.len(), "what masks nothing has a kernel together");
}

/// Compiles what is not the same text, and fails for what does not compile or spills too much. Gives how many there were.
fn compile_each_once<S: Unit + Send>(mut sources: Vec<S>) -> usize {
    let mut seen = HashSet::new();
    sources.retain(|source| seen.insert(source.key()));
    let budget = budget();
    let compile = |source: S| {
        let name = source.name().to_owned();
        match jit::obtain(source) {
            Err(error) => vec![error.to_string()],
            Ok(ready) => over_budget(&name, &ready, &budget),
        }
    };
    let failures: Vec<String> = sources.into_par_iter().flat_map_iter(compile).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    seen.len()
}

fn over_budget<S>(name: &str, ready: &jit::Ready<S>, budget: &[Allowance]) -> Vec<String> {
    let kernels = ready.compiled.resources();
    if kernels.is_empty() {
        return vec![format!("{name}: the log names no kernel:\n{}", ready.compiled.log)];
    }
    let serialised = serialised_products(&ready.compiled.log).map(|line| format!("{name}: {line}"));
    let over = kernels.iter().filter_map(|kernel| {
        let (spilled, allowed) = (kernel.spill_bytes(), allowed(budget, &kernel.kernel, name));
        (spilled > allowed).then(|| format!("{}, {name} = {spilled} (allowed: {allowed})", kernel.kernel))
    });
    serialised.chain(over).collect()
}
