//! The points of the matrix: variant x kernel kind x architecture x shape x types, and a label for each.

use attn_core::{
    Registry, Variant,
    dtype::{Dtype, Dtypes},
    lang::{FieldDesc, FieldType, VariantDesc},
    spec::{
        ComputeType, DecodeBackend, HeadDimVo,
        KernelKind::{self, Decode, Mixed, Prefill},
        PrefillBackend,
    },
};
use attn_kernels::{
    compile::Arch,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};

/// The architectures of the prefill backends. The matrix has every variant in the prefill kernels of both, and in the
/// decode kernel, which has one template, for the second.
pub(crate) const ARCHS: [&str; 2] = ["sm_80", "sm_90a"];

/// The other architectures. Templates differ there by instructions and shared memory and hooks do not, so a test run
/// compiles a hook or a composition for one of them; `cargo xtask test --all` compiles every variant for each.
pub(crate) const FURTHER_ARCHS: [&str; 4] = ["sm_86", "sm_89", "sm_100a", "sm_120"];

/// The architecture for which the matrix has every variant on CUDA cores: it has no other kernels.
const CUDA_CORES_ARCH: &str = "sm_75";

/// The other architectures of kernels on CUDA cores, which have the same text.
const CUDA_CORES_FURTHER: [&str; 6] = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"];

/// Compositions of real models; those with the most registers.
pub(crate) const COMPOSITIONS: [&str; 3] =
    ["causal + sliding_window(window=1) + soft_cap(cap=1)", "causal + alibi + sink", "causal + qk_norm + rope"];

/// One composition for each hook that the lists above lack.
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

/// One composition for each code path of decode: no hook, hooks of queries, keys and values, hooks of logits, weights
/// of a variant's own, key lists, and stores.
pub(crate) const SPREAD: [&str; 6] = [
    "full",
    "causal + rope + value_norm",
    "causal + alibi + sink",
    "causal + softpick + sink",
    "causal + token_list(max_tokens=8) + rope + value_norm",
    "causal + logits_dump(columns=8)",
];

/// One kernel of the matrix.
#[derive(Clone)]
pub(crate) struct Point {
    expr: String,
    kind: KernelKind,
    arch: &'static str,
    head_dim: u32,
    head_dim_vo: HeadDimVo,
    dtypes: Dtypes,
    paged: bool,
    group: u32,
    shared_rows: bool,
    prefill: PrefillBackend,
    decode: Option<DecodeBackend>,
    compute_type: ComputeType,
}

impl Point {
    fn new(expr: &str, kind: KernelKind, arch: &'static str) -> Self {
        let (head_dim, head_dim_vo, dtypes) = (128, HeadDimVo::Same, Dtypes::bf16());
        let (shared_rows, prefill) = (false, PrefillBackend::default());
        Point {
            expr: expr.to_owned(),
            kind,
            arch,
            head_dim,
            head_dim_vo,
            dtypes,
            paged: true,
            group: 4,
            shared_rows,
            prefill,
            decode: None,
            compute_type: ComputeType::Exact,
        }
    }

    /// Names the point in lists of cubins. The words stand here alone, so that a rename elsewhere changes no label.
    pub(crate) fn label(&self) -> String {
        let kind = match self.kind {
            Prefill => "prefill",
            Decode => "decode",
            Mixed => "mixed",
        };
        let vo = match self.head_dim_vo {
            HeadDimVo::Same => String::new(),
            HeadDimVo::Dim(dim) => format!(" vo{dim}"),
            HeadDimVo::SharedWithKeys(dim) => format!(" shared{dim}"),
        };
        let backend = match self.prefill {
            PrefillBackend::Sm80 => " sm80",
            PrefillBackend::Sm90 => "",
            PrefillBackend::Sm90Resident => " resident",
            PrefillBackend::CudaCores => " cuda-cores",
        };
        let decode = if self.decode == Some(DecodeBackend::CudaCores) { " cuda-cores-decode" } else { "" };
        let (head_dim, group, arch, expr) = (self.head_dim, self.group, self.arch, &self.expr);
        let layout = if self.paged { "paged" } else { "ragged" };
        let dtypes = format!("{}/{}", self.dtypes.qo, self.dtypes.kv);
        let rows = if self.shared_rows { " cascade" } else { "" };
        let compute_type = if self.compute_type == ComputeType::E4m3 { " e4m3-compute" } else { "" };
        format!(
            "{kind} {arch} hd{head_dim}{vo} {dtypes} {layout} group{group}{rows}{backend}{decode}{compute_type}: {expr}"
        )
    }

    pub(crate) fn source(&self, registry: &Registry) -> KernelSource {
        let &Point { kind, head_dim, head_dim_vo, dtypes, paged, group, .. } = self;
        let variant = Variant::parse_with(&self.expr, registry).expect(&self.expr);
        let arch: Arch = self.arch.parse().expect(self.arch);
        let request = KernelTraitsRequest::new(kind, head_dim, dtypes, arch).with_hooks([&variant]);
        let (shared_rows, prefill, decode) = (self.shared_rows, self.prefill, self.decode);
        let request = KernelTraitsRequest { head_dim_vo, paged, group, shared_rows, prefill, decode, ..request };
        let request = KernelTraitsRequest { compute_type: self.compute_type, ..request };
        let traits = KernelTraits::choose(&request).expect("kernel traits");
        KernelSource::build(&variant, &traits).expect("supported")
    }
}

/// Every registered variant, with a value for each required parameter. The value is a kernel argument, so any will do.
pub(crate) fn registered(registry: &Registry) -> Vec<String> {
    let given = |field: &&FieldDesc| field.default.is_none() && matches!(field.ty, FieldType::Scalar(_));
    let expr = |desc: &VariantDesc, values: &[&str]| {
        let params = desc.fields.iter().filter(given).zip(values.iter().cycle());
        let params: Vec<_> = params.map(|(field, value)| format!("{}={value}", field.name)).collect();
        format!("{}({})", desc.name, params.join(", "))
    };
    let parses = |expr: &String| Variant::parse_with(expr, registry).is_ok();
    // the last for a number and one below it
    let values: [&[&str]; 3] = [&["1"], &["0.5"], &["2", "1"]];
    let of = |desc| values.map(|values| expr(desc, values)).into_iter().find(parses).expect(desc.name);
    registry.iter().map(of).collect()
}

/// Every variant of a kind on architectures, at head_dim 128, bf16, paged.
fn every_variant<'a>(exprs: &'a [String], kind: KernelKind, archs: &'a [&'static str]) -> impl Iterator<Item = Point> {
    archs.iter().flat_map(move |arch| exprs.iter().map(move |expr| Point::new(expr, kind, arch)))
}

/// The hooks, then the compositions.
fn hooks_and_compositions() -> impl Iterator<Item = &'static str> {
    HOOKS.into_iter().chain(COMPOSITIONS)
}

/// Every variant on [`ARCHS`] at head_dim 128, bf16, paged; the rest of the grid for a few variants.
/// A decode tile has 8 rows for groups up to 8, else 16.
pub(crate) fn points(registry: &Registry) -> Vec<Point> {
    let mut points = Vec::new();
    let exprs = registered(registry);
    for (kind, archs, shift) in [(Prefill, &ARCHS[..], 0), (Decode, &ARCHS[1..], 1)] {
        points.extend(every_variant(&exprs, kind, archs));
        let in_turn = FURTHER_ARCHS.into_iter().cycle().skip(shift);
        points.extend(hooks_and_compositions().zip(in_turn).map(|(expr, arch)| Point::new(expr, kind, arch)));
        points.extend(HOOKS.iter().map(|expr| Point::new(expr, kind, "sm_80")));
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

/// Variants that e4m3 compute supports: masks, logits, biases in each form, sinks, stores and queries' hooks.
const E4M3_COMPUTE: [&str; 7] = [
    "full",
    "causal + sliding_window(window=1) + soft_cap(cap=1)",
    "causal + alibi + sink",
    "relative_bias(max_distance=1)",
    "pair_bias(rows=1, columns=1)",
    "causal + logits_dump(columns=8)",
    "causal + max_logit",
];

/// Prefill that computes in e4m3, ragged and paged, of both types of queries.
pub(crate) fn e4m3_compute() -> Vec<Point> {
    let layouts = [(false, Dtype::Bf16), (true, Dtype::F16)];
    let of = |expr: &&str| {
        layouts.map(|(paged, qo)| {
            let (dtypes, compute_type) = (Dtypes::new(qo, Dtype::E4m3), ComputeType::E4m3);
            Point { dtypes, paged, compute_type, ..Point::new(expr, Prefill, "sm_90a") }
        })
    };
    E4M3_COMPUTE.iter().flat_map(of).collect()
}

/// Every variant where the matrix has a few.
pub(crate) fn further(registry: &Registry) -> Vec<Point> {
    let exprs = registered(registry);
    let mut points = Vec::new();
    for (kind, archs) in [(Prefill, &[][..]), (Decode, &ARCHS[..1])] {
        points.extend(every_variant(&exprs, kind, archs));
        points.extend(every_variant(&exprs, kind, &FURTHER_ARCHS));
        points.extend(hooks_and_compositions().flat_map(|expr| FURTHER_ARCHS.map(|arch| Point::new(expr, kind, arch))));
    }
    points.extend(all_on_cuda_cores(registry, &CUDA_CORES_FURTHER));
    points
}

/// Mixed kernels hold prefill and decode, each in a namespace of its own, with and without cascade rows, and with
/// prefill of either backend. The hooks' code paths are covered by the points of each kind.
pub(crate) fn mixed() -> Vec<Point> {
    let on = |expr: &str, arch| Point { prefill: PrefillBackend::Sm80, ..Point::new(expr, Mixed, arch) };
    let mut points = Vec::new();
    for expr in spread_without_lists().chain(COMPOSITIONS) {
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

/// Mixed kernels whose prefill part is that of sm_90.
pub(crate) fn sm90_mixed(registry: &Registry) -> Vec<Point> {
    let on = |expr: &str| Point::new(expr, Mixed, "sm_90a");
    let mut points = Vec::new();
    for expr in spread_without_lists().chain(COMPOSITIONS) {
        points.extend([4, 16].map(|group| Point { group, ..on(expr) }));
        points.push(Point { head_dim: 64, ..on(expr) });
    }
    for expr in spread_without_lists() {
        points.push(Point { paged: false, dtypes: Dtypes::f16(), ..on(expr) });
        points.push(Point { dtypes: Dtypes::bf16().with_kv(Dtype::E4m3), ..on(expr) });
        points.push(Point { head_dim: 64, group: 16, paged: false, ..on(expr) });
    }
    for head_dim in [16, 80] {
        points.push(Point { head_dim, ..on("causal") });
    }
    for (expr, head_dim) in [("causal", 192), ("causal", 256), ("causal + soft_cap(cap=30)", 256)] {
        points.push(Point { head_dim, dtypes: Dtypes::bf16().with_kv(Dtype::E4m3), ..on(expr) });
    }
    points.push(Point { head_dim_vo: HeadDimVo::Dim(64), ..on("causal") });
    assert!(points.iter().all(|point| point.source(registry).traits.is_sm90_prefill()));
    points
}

fn spread_without_lists() -> impl Iterator<Item = &'static str> {
    SPREAD.into_iter().filter(|expr| !expr.contains("token_list"))
}

/// Prefill for sm_90 beyond the common grid: widths, types and layouts of a few variants. The sm_80 backend on Hopper.
pub(crate) fn sm90_prefill(registry: &Registry) -> Vec<Point> {
    let on = |expr: &str| Point::new(expr, Prefill, "sm_90a");
    let mut points: Vec<_> = HOOKS.into_iter().chain(COMPOSITIONS).map(on).collect();
    for expr in SPREAD {
        let of = |head_dim| Point { head_dim, paged: false, dtypes: Dtypes::f16(), ..on(expr) };
        points.extend([16, 64, 80, 128, 256].map(of));
        points.push(Point { dtypes: Dtypes::bf16().with_kv(Dtype::E4m3), ..on(expr) });
        points.push(Point { head_dim_vo: HeadDimVo::Dim(64), ..on(expr) });
    }
    points.retain(|point| point.source(registry).traits.is_sm90_prefill());
    let short = points.iter().map(|point| Point { prefill: PrefillBackend::Sm90Resident, ..point.clone() });
    let short: Vec<_> = short.filter(|point| point.source(registry).traits.facts().special.is_some()).collect();
    points.extend(short);
    points.extend(SPREAD.iter().map(|expr| Point { prefill: PrefillBackend::Sm80, ..on(expr) }));
    points
}

fn on_cuda_cores(expr: &str, kind: KernelKind, arch: &'static str) -> Point {
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    Point { prefill, decode, group: 1, ..Point::new(expr, kind, arch) }
}

/// Every variant on CUDA cores over f32.
fn all_on_cuda_cores(registry: &Registry, archs: &[&'static str]) -> Vec<Point> {
    let exprs = registered(registry);
    let of = |(kind, &arch)| {
        exprs.iter().map(move |expr| Point { dtypes: Dtypes::f32(), ..on_cuda_cores(expr, kind, arch) })
    };
    [Prefill, Decode].into_iter().flat_map(|kind| archs.iter().map(move |arch| (kind, arch))).flat_map(of).collect()
}

/// Kernels on CUDA cores: every variant over f32 on one architecture; a code path each on the others; all code
/// paths over other types, head dims and numbers of rows.
pub(crate) fn cuda_cores(registry: &Registry) -> Vec<Point> {
    let point = on_cuda_cores;
    let f32 = |expr: &str, kind, arch| Point { dtypes: Dtypes::f32(), ..point(expr, kind, arch) };
    let e4m3 = Dtypes::bf16().with_kv(Dtype::E4m3);
    let mut points = all_on_cuda_cores(registry, &[CUDA_CORES_ARCH]);
    for (kind, shift) in [(Prefill, 0), (Decode, 1)] {
        let in_turn = CUDA_CORES_FURTHER.into_iter().cycle().skip(shift);
        points.extend(SPREAD.into_iter().zip(in_turn).map(|(expr, arch)| f32(expr, kind, arch)));
        for expr in SPREAD {
            points.extend(["sm_75", "sm_90a"].map(|arch| Point { dtypes: e4m3, ..point(expr, kind, arch) }));
            points.push(Point { paged: false, dtypes: Dtypes::f16(), ..point(expr, kind, "sm_75") });
            points.extend([2, 4, 8].map(|group| Point { group, ..point(expr, kind, "sm_90a") }));
        }
        for (head_dim, vo) in [(8, 8), (40, 24), (72, 136), (128, 64), (264, 264), (512, 512), (64, 512)] {
            let of = |arch| {
                let head_dim_vo = HeadDimVo::Dim(vo);
                Point { head_dim, head_dim_vo, group: 8, ..f32("causal + rope + value_norm", kind, arch) }
            };
            points.extend(["sm_75", "sm_90a"].map(of));
            points.push(Point { dtypes: e4m3, ..of("sm_90a") });
        }
        let latent =
            Point { head_dim: 576, head_dim_vo: HeadDimVo::SharedWithKeys(512), ..f32("causal", kind, "sm_90a") };
        points.push(latent);
    }
    for shared_rows in [false, true] {
        points.push(Point { shared_rows, ..f32("causal + rope", Mixed, "sm_75") });
        points.push(Point { shared_rows, ..f32("causal + softpick + sink", Mixed, "sm_90a") });
        let of_tensor_cores = Point { prefill: PrefillBackend::Sm80, ..point("causal + alibi", Mixed, "sm_90a") };
        points.push(Point { shared_rows, ..of_tensor_cores });
    }
    points
}

/// A sample of head dims: short, odd and long rows, values of another width, values shared with the keys.
pub(crate) fn widths() -> Vec<Point> {
    let widths = [
        (16, HeadDimVo::Same),
        (80, HeadDimVo::Same),
        (240, HeadDimVo::Same),
        (192, HeadDimVo::Dim(128)),
        (512, HeadDimVo::Same),
        (576, HeadDimVo::SharedWithKeys(512)),
    ];
    let e4m3 = Dtypes::bf16().with_kv(Dtype::E4m3);
    let of = |(kind, (head_dim, head_dim_vo))| {
        let point = |expr, arch| Point { head_dim, head_dim_vo, ..Point::new(expr, kind, arch) };
        [
            point("causal", "sm_90a"),
            Point { dtypes: e4m3, ..point("causal + rope + value_norm", "sm_80") },
            point("causal + rope + value_norm", "sm_90a"),
            point("causal + output_norm", "sm_120"),
        ]
    };
    [Prefill, Decode].into_iter().flat_map(|kind| widths.map(|width| (kind, width))).flat_map(of).collect()
}

/// Keys and values of 8 bits, on architectures with and without an instruction that converts them to f16.
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
