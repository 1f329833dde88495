//! KV formats: every stock format in every kernel, each head dim and place of pages.
//!
//! A case is a format, a kernel and a head dim. Layout, order and pool of pages, the group, the variant, the type of
//! queries, scales, lengths and graphs are chosen so that as many pairs of values as possible meet. Values within keys
//! follow at the end.

use std::collections::HashSet;

use attn::{DecodeBackend, HeadDimVo, PrefillBackend};

use super::cells::{Lengths, all_pairs, named, set_lens};
use crate::{Case, LayoutKind, Lens, LevelCase, Order, Pool, random::Random};

/// Formats of keys and values: the stock ones, and pairs.
const FORMATS: [&str; 12] = [
    "int8",
    "int4(group=32)",
    "int4(group=32, zero=true)",
    "int4(group=64)",
    "per_channel",
    "per_channel(bits=4)",
    "nvfp4",
    "mx_fp8",
    "turbo4",
    "bf16 / f16",
    "int8 / int4(group=32, zero=true)",
    "turbo4 / f16",
];

/// A kernel, and the backend that is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Route {
    Decode(DecodeBackend),
    Prefill(PrefillBackend),
    Mixed,
    Cascade,
}

const ROUTES: [Route; 7] = [
    Route::Decode(DecodeBackend::TensorCores),
    Route::Decode(DecodeBackend::CudaCores),
    Route::Prefill(PrefillBackend::Sm90),
    Route::Prefill(PrefillBackend::Sm80),
    Route::Prefill(PrefillBackend::CudaCores),
    Route::Mixed,
    Route::Cascade,
];

/// Variants that read rows as they are decoded, and that transform them.
const VARIANTS: [&str; 8] = [
    "full",
    "causal",
    "causal + rope",
    "value_norm",
    "causal + qk_norm + rope(interleaved=true) + value_norm",
    "causal + alibi + soft_cap(cap=30)",
    "sliding_window(window=100) + sink",
    "causal + k_smoothing",
];

const HEAD_DIMS: [u32; 3] = [64, 128, 256];
const GROUPS: [u32; 5] = [1, 4, 8, 3, 16];
/// Page size (0: ragged).
const PAGE_SIZES: [u32; 5] = [1, 5, 16, 64, 0];
const ORDERS: [Order; 2] = [Order::Nhd, Order::Hnd];
const POOLS: [Pool; 3] = [Pool::Split, Pool::Fused, Pool::Padded];
/// The scale of the tensor, and whether heads have scales.
const SCALES: [(Option<f32>, bool); 3] = [(None, false), (Some(0.375), false), (Some(1.75), true)];

const PREFILL: [Lengths; 4] =
    [(&[63, 65, 1], &[130, 65, 300]), (&[17, 128], &[517, 128]), (&[0, 70, 5], &[7, 40, 900]), (&[129], &[257])];
const DECODE: [Lengths; 4] =
    [(&[1, 1, 1], &[1, 700, 65]), (&[2, 1, 0], &[2049, 33, 9]), (&[1, 1, 1, 1], &[255, 3000, 17, 96]), (&[4], &[300])];
const MIXED: [Lengths; 3] =
    [(&[1, 40, 1], &[500, 90, 33]), (&[70, 1, 1, 2], &[200, 1023, 7, 64]), (&[1, 0, 130], &[2000, 5, 130])];
/// Keys of two groups of requests, and of the requests themselves.
const SHARED: ([u32; 2], [u32; 2]) = ([3, 1], [400, 67]);
const OWN: [Lengths; 2] = [(&[1, 1, 2, 1], &[30, 0, 7, 65]), (&[1, 33, 1, 5], &[3, 40, 129, 16])];

/// The cases.
#[must_use]
pub fn formats() -> Vec<Case> {
    let (mut cases, mut seen, mut random) = (Vec::new(), HashSet::new(), Random::new(2026, 0));
    for format in FORMATS {
        for route in ROUTES {
            for head_dim in HEAD_DIMS {
                let tries = (0..32).map(|_| Pick::new(route, &mut random));
                let tries = tries.map(|pick| (pick.pairs(format, route, head_dim), pick));
                let fresh = |pairs: &[_]| pairs.iter().filter(|pair| !seen.contains(*pair)).count();
                if let Some((pairs, pick)) = tries.max_by_key(|(pairs, _)| fresh(pairs)) {
                    seen.extend(pairs);
                    cases.push(pick.case(format, route, head_dim));
                }
            }
        }
    }
    cases.extend(latent());
    let number = |(number, case)| {
        let case = named(case, "formats", number);
        let over = case.kv_dtype.clone().unwrap_or_default();
        Case { seed: number as u64, name: case.name.map(|name| format!("{name} over {over}")), ..case }
    };
    cases.into_iter().enumerate().map(number).collect()
}

/// Values that are the first elements of keys.
fn latent() -> impl Iterator<Item = Case> {
    let formats = ["ds_mla", "int8", "int4(group=32)", "ds_mla"].into_iter().enumerate();
    formats.flat_map(|(at, format)| {
        ["decode", "prefill"].into_iter().enumerate().map(move |(of_kernel, kernel)| {
            let mut case = Case::new(["full", "causal"][(at + of_kernel) % 2]);
            kernel.clone_into(&mut case.kernel);
            case.kv_dtype = Some(format.to_owned());
            (case.head_dim, case.head_dim_vo) = (576, HeadDimVo::SharedWithKeys(512));
            (case.kv_heads, case.qo_heads) = (1, [16, 128, 5, 64][at]);
            (case.kv_layout, case.page_size) = (LayoutKind::Paged, [64, 16, 1, 5][at]);
            let lens: [Lengths; 2] = [(&[1, 1, 2], &[700, 64, 33]), (&[9, 33], &[300, 33])];
            set_lens(&mut case, &lens[of_kernel]);
            case.graph = at % 2 == 1;
            case
        })
    })
}

/// The chosen factors of a case: indices into the tables.
struct Pick {
    variant: usize,
    dtype: usize,
    group: usize,
    page_size: usize,
    order: usize,
    pool: usize,
    scale: usize,
    lens: usize,
    graph: bool,
}

impl Route {
    fn name(self) -> String {
        match self {
            Route::Decode(backend) => format!("decode {backend}"),
            Route::Prefill(backend) => format!("prefill {backend}"),
            Route::Mixed => "mixed".to_owned(),
            Route::Cascade => "cascade".to_owned(),
        }
    }

    fn lens(self) -> &'static [Lengths] {
        match self {
            Route::Decode(_) => &DECODE,
            Route::Prefill(_) => &PREFILL,
            Route::Mixed => &MIXED,
            Route::Cascade => &OWN,
        }
    }
}

impl Pick {
    fn new(route: Route, random: &mut Random) -> Self {
        let mut one = |of: usize| random.below(of as u64) as usize;
        Pick {
            variant: one(VARIANTS.len()),
            dtype: one(2),
            group: one(GROUPS.len()),
            page_size: one(PAGE_SIZES.len()),
            order: one(ORDERS.len()),
            pool: one(POOLS.len()),
            scale: one(SCALES.len()),
            lens: one(route.lens().len()),
            graph: one(2) == 1,
        }
    }

    /// Every pair of values of a case.
    fn pairs(&self, format: &str, route: Route, head_dim: u32) -> Vec<(String, String)> {
        let values = [
            format.to_owned(),
            route.name(),
            format!("dim {head_dim}"),
            VARIANTS[self.variant].to_owned(),
            format!("group {}", GROUPS[self.group]),
            format!("page {} {:?}", PAGE_SIZES[self.page_size], ORDERS[self.order]),
            format!("{:?}", POOLS[self.pool]),
            format!("scale {}", self.scale),
            format!("{} lengths {}", route.name(), self.lens),
            format!("dtype {} graph {}", self.dtype, self.graph),
        ];
        all_pairs(&values)
    }

    fn case(&self, format: &str, route: Route, head_dim: u32) -> Case {
        // keys that a hook smooths by request differ between requests that share them
        let shared = route == Route::Cascade && VARIANTS[self.variant].contains("k_smoothing");
        let mut case = Case::new(if shared { "causal" } else { VARIANTS[self.variant] });
        ["bf16", "f16"][self.dtype].clone_into(&mut case.dtype);
        case.kv_dtype = Some(format.to_owned());
        case.head_dim = head_dim;
        (case.kv_heads, case.qo_heads) = (2, 2 * GROUPS[self.group]);
        set_lens(&mut case, &route.lens()[self.lens]);
        let page_size = PAGE_SIZES[self.page_size];
        if page_size > 0 {
            (case.kv_layout, case.page_size) = (LayoutKind::Paged, page_size);
        }
        match route {
            Route::Decode(backend) => {
                "decode".clone_into(&mut case.kernel);
                case.decode = Some(backend);
            }
            Route::Prefill(backend) => {
                "prefill".clone_into(&mut case.kernel);
                case.prefill = backend;
            }
            Route::Mixed => "mixed".clone_into(&mut case.kernel),
            Route::Cascade => {
                "mixed".clone_into(&mut case.kernel);
                let (groups, kv_lens) = SHARED;
                case.kv_layout = if page_size > 0 { LayoutKind::Cascade } else { LayoutKind::RaggedCascade };
                let kv_lens = Lens::List(kv_lens.to_vec());
                case.levels = vec![LevelCase { groups: groups.to_vec(), kv_lens, page_size: None }];
            }
        }
        case.page_order = ORDERS[self.order];
        // in one pool, rows of keys and of values have the same bytes
        case.pool = if format.contains('/') { Pool::Split } else { POOLS[self.pool] };
        (case.kv_scale, case.kv_scale_per_head) = SCALES[self.scale];
        case.graph = self.graph;
        case
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMATS, HEAD_DIMS, ROUTES, formats};
    use crate::{Inputs, LayoutKind, Order, Pool};

    #[test]
    fn every_stock_format_meets_every_place() {
        let cases = formats();
        assert_eq!(cases.len(), FORMATS.len() * ROUTES.len() * HEAD_DIMS.len() + 8);
        for desc in attn::stock::kv_formats::all() {
            let named = |case: &crate::Case| case.kv_dtype.as_deref().is_some_and(|text| text.contains(desc.name));
            assert!(cases.iter().any(named), "{}", desc.name);
        }
        let some = |what: &str, of: &dyn Fn(&crate::Case) -> bool| {
            for format in FORMATS {
                let there = cases.iter().any(|case| case.kv_dtype.as_deref() == Some(format) && of(case));
                assert!(there, "{format}: {what}");
            }
        };
        for size in [1, 5, 16, 64] {
            some(&format!("pages of {size}"), &|case| case.kv_layout != LayoutKind::Ragged && case.page_size == size);
        }
        some("ragged", &|case| case.kv_layout == LayoutKind::Ragged);
        some("HND", &|case| case.page_order == Order::Hnd);
        some("scales", &|case| case.kv_scale_per_head);
        some("graphs", &|case| case.graph);
        some("hooks", &|case| case.variant.contains("value_norm"));
        for group in [1, 4, 8] {
            some(&format!("group {group}"), &|case| case.qo_heads == group * case.kv_heads);
        }
        assert!(cases.iter().any(|case| case.pool == Pool::Fused));
        // every format holds rows of these dims
        for case in cases.iter().step_by(5) {
            Inputs::new(case, true).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        }
    }
}
