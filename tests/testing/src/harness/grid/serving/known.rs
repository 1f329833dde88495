//! The sizes that attention libraries test: lengths, heads, head dims, page sizes, windows, caps. Every pair of sizes
//! of a list meets in some case. Where the reference would take too long, the case has fewer heads, then fewer
//! requests, then fewer queries.

use std::collections::HashSet;

use super::{layout::layout_name, lists};
use crate::{Case, LayoutKind, Lens, LevelCase, Order, Pool, random::Random};

/// The most operations of the reference of a case.
const MOST_COST: u64 = 150_000_000;

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    let grids = [
        decode(),
        prefill(),
        custom_masks(),
        multi_item(),
        one_prompt(),
        extremes(),
        alibi(),
        caps(),
        windows(),
        sinks(),
        shared_prefixes(),
        block_sparse(),
        long(),
        fp8(),
        packed(),
        prompt_with_decode(),
    ];
    grids.concat()
}

fn decode() -> Vec<Case> {
    let sizes: [&[u32]; 9] = [
        &[12, 17, 128],
        &[54, 97, 512, 2048, 16_384],
        &[1, 8, 16],
        &[1, 8],
        &[64, 128, 256],
        &[0, 1],
        &[0, 1],
        &[0, 1],
        &[0, 1],
    ];
    pairwise("decode", &sizes, |s| {
        let mut case = one("decode", pick(s[5], "full", "rope"), [4 * s[3], 4, s[4]]);
        case.kv_dtype = (s[6] == 1).then(|| "e4m3".to_owned());
        batch(&mut case, s[0], 1, s[1]);
        pages(&mut case, s[2], s[7]);
        case.graph = s[8] == 1;
        case
    })
}

fn prefill() -> Vec<Case> {
    let sizes: [&[u32]; 9] = [
        &[12, 17, 128],
        &[54, 97, 512, 2048],
        &[37, 17, 127, 577],
        &[0, 1, 5, 16],
        &[1, 8],
        &[64, 128, 256],
        &[0, 1],
        &[0, 1],
        &[0, 1],
    ];
    pairwise("prefill", &sizes, |s| {
        let expr = pick(s[6], pick(s[7], "full", "rope"), pick(s[7], "causal", "causal + rope"));
        let mut case = one("prefill", expr, [4 * s[4], 4, s[5]]);
        batch(&mut case, s[0], s[2], s[1]);
        pages(&mut case, s[3], s[8]);
        case.graph = s[8] == 1;
        case
    })
}

fn custom_masks() -> Vec<Case> {
    let sizes: [&[u32]; 7] = [&[12, 17], &[54, 97, 512], &[37, 17, 127], &[0, 1, 16], &[64, 128], &[0, 1, 2], &[0, 1]];
    pairwise("custom mask", &sizes, |s| {
        let positions = ["", " + rope", " + alibi"][s[5] as usize];
        let expr = format!("custom_mask(size=150000){positions}{}", pick(s[6], "", " + soft_cap(cap=30)"));
        let mut case = one("prefill", &expr, [4, 4, s[4]]);
        batch(&mut case, s[0], s[2], s[1]);
        pages(&mut case, s[3], 0);
        case
    })
}

fn multi_item() -> Vec<Case> {
    let sizes: [&[u32]; 4] = [&[0, 1], &[1, 5, 16], &[1, 8], &[1, 4]];
    pairwise("multi-item", &sizes, |s| {
        let mut case = one("prefill", "multi_item", [4 * s[2], 4, 128]);
        let (kv, qo) = [(54, 37), (97, 81)][s[0] as usize];
        batch(&mut case, s[3], qo, kv);
        pages(&mut case, s[1], 0);
        case
    })
}

fn one_prompt() -> Vec<Case> {
    let sizes: [&[u32]; 5] = [&[501, 2042, 3771, 4932], &[37, 127, 577, 1024], &[4, 7], &[64, 128, 256], &[0, 1]];
    pairwise("one prompt", &sizes, |s| {
        let mut case = one("prefill", pick(s[4], "full", "causal"), [s[2], 1, s[3]]);
        batch(&mut case, 1, s[1], s[0]);
        case
    })
}

/// Logits of about -25000 in the first head, and of up to 400 in magnitude in others.
fn extremes() -> Vec<Case> {
    let sizes: [&[u32]; 4] = [&[0, 1], &[501, 2042], &[37, 127], &[0, 1]];
    pairwise("extremes", &sizes, |s| {
        let far = "remap(chunk_positions(qo_start=100000, kv_start=0), alibi)";
        let mut case = one(pick(s[0], "prefill", "decode"), pick(s[3], far, "causal"), [4, 1, 128]);
        "bf16".clone_into(&mut case.dtype);
        batch(&mut case, 2, if s[0] == 0 { s[2] } else { 1 }, s[1]);
        case.q_std = (s[3] == 1).then_some(100.0);
        case
    })
}

fn alibi() -> Vec<Case> {
    let alone: [&[u32]; 3] = [&[1, 9, 81, 729], &[4, 8, 32], &[128, 256]];
    let mut cases = pairwise("ALiBi", &alone, |s| {
        let mut case = one("decode", "alibi", [s[1], s[1], s[2]]);
        batch(&mut case, 1, 1, s[0]);
        case
    });
    let sizes: [&[u32]; 5] = [&[1, 17, 81, 987], &[1, 17, 81, 987], &[4, 8, 32], &[128, 256], &[0, 1]];
    cases.extend(pairwise("ALiBi", &sizes, |s| {
        let mut case = one("prefill", pick(s[4], "alibi", "causal + alibi"), [s[2], s[2], s[3]]);
        batch(&mut case, 1, s[0], s[1]);
        case
    }));
    cases
}

fn caps() -> Vec<Case> {
    let expr = |cap: u32| format!("soft_cap(cap={cap})");
    let alone: [&[u32]; 4] = [&[1, 9, 81, 729, 33_001], &[4, 8, 32], &[128, 256], &[1, 30, 50]];
    let mut cases = pairwise("cap", &alone, |s| {
        let mut case = one("decode", &expr(s[3]), [s[1], s[1], s[2]]);
        batch(&mut case, 1, 1, s[0]);
        case
    });
    let sizes: [&[u32]; 5] = [&[1, 17, 81, 987], &[1, 17, 81, 987, 31_111], &[4, 8, 32], &[128, 256], &[1, 30, 50]];
    cases.extend(pairwise("cap", &sizes, |s| {
        let mut case = one("prefill", &expr(s[4]), [s[2], s[2], s[3]]);
        batch(&mut case, 1, s[0], s[1]);
        case
    }));
    cases
}

fn windows() -> Vec<Case> {
    let expr = |window: u32| format!("causal + sliding_window(window={})", window + 1);
    let alone: [&[u32]; 5] =
        [&[1, 3, 19, 99, 199, 1177, 1999], &[3, 13, 23, 37, 43], &[1, 4], &[4, 8], &[64, 128, 256]];
    let mut cases = pairwise("window", &alone, |s| {
        let mut case = one("decode", &expr(s[1]), [s[3], s[2], s[4]]);
        batch(&mut case, 1, 1, s[0]);
        case
    });
    let several: [&[u32]; 4] = [&[1, 3, 13, 32], &[1, 3, 99, 199, 1999], &[33, 533], &[1, 16]];
    cases.extend(pairwise("window", &several, |s| {
        let mut case = one("decode", &expr(s[2]), [8, 4, 128]);
        batch(&mut case, s[0], 1, s[1]);
        pages(&mut case, s[3], 0);
        case
    }));
    let prompts: [&[u32]; 5] =
        [&[1, 12, 17, 30], &[54, 99, 397, 1177, 1999], &[1, 37, 47, 99], &[13, 33, 111, 233], &[0, 1, 16]];
    cases.extend(pairwise("window", &prompts, |s| {
        let mut case = one("prefill", &expr(s[3]), [8, 4, 128]);
        batch(&mut case, s[0], s[2], s[1]);
        pages(&mut case, s[4], 0);
        case
    }));
    cases
}

fn sinks() -> Vec<Case> {
    let expr = |window| pick(window, "causal + sink", "causal + sliding_window(window=128) + sink");
    let sizes: [&[u32]; 6] = [&[0, 1], &[1, 4, 16], &[1, 4, 16, 128], &[8, 32], &[0, 1], &[0, 1]];
    let mut cases = pairwise("sink", &sizes, |s| {
        let kernel = if s[2] == 1 { "decode" } else { "prefill" };
        let mut case = one(kernel, expr(s[4]), [32, s[3], 128]);
        pick(s[0], "f16", "bf16").clone_into(&mut case.dtype);
        batch(&mut case, s[1], s[2], s[2]);
        pages(&mut case, 16 * s[5], 0);
        case
    });
    let chunks: [&[u32]; 4] = [&[0, 1], &[128, 256], &[256, 512], &[0, 1]];
    cases.extend(pairwise("sink, chunk", &chunks, |s| {
        let mut case = one("prefill", expr(s[3]), [8, 2, 128]);
        pick(s[0], "f16", "bf16").clone_into(&mut case.dtype);
        batch(&mut case, 1, s[1], s[1] + s[2]);
        pages(&mut case, 16, 0);
        case
    }));
    cases
}

fn shared_prefixes() -> Vec<Case> {
    let sizes: [&[u32]; 7] = [&[0, 1], &[12, 17], &[37, 17], &[128, 512, 2048], &[8, 16], &[128, 256], &[1, 16]];
    pairwise("shared prefix", &sizes, |s| {
        let mut case = one("mixed", "causal", [s[4], s[4], s[5]]);
        let queries = if s[0] == 0 { 1 } else { s[2] };
        batch(&mut case, s[1], queries, s[2]);
        pages(&mut case, s[6], 0);
        case.kv_layout = LayoutKind::Cascade;
        case.levels = vec![LevelCase { groups: vec![s[1]], kv_lens: Lens::List(vec![s[3]]), page_size: None }];
        case
    })
}

fn block_sparse() -> Vec<Case> {
    let sizes: [&[u32]; 6] = [&[1, 4, 16], &[1, 4, 16], &[64, 128, 256], &[64, 128, 256], &[1, 4, 16], &[128, 256]];
    pairwise("block sparse", &sizes, |s| {
        let [r, c, m, n] = [s[0], s[1], s[2], s[3]];
        let mut case = one("prefill", "", [s[4], if s[4] == 16 { 4 } else { 1 }, s[5]]);
        batch(&mut case, 1, m, n);
        let block = [r as usize, c as usize];
        case.variant = lists::block_sparse(&case, block, &mut Random::new(u64::from(r * m + c * n), 7));
        case
    })
}

fn long() -> Vec<Case> {
    let sizes: [&[u32]; 6] =
        [&[11, 99, 1763, 9999, 32_767], &[1, 4, 8], &[1, 4, 8], &[64, 128, 256], &[0, 1], &[0, 1, 16]];
    pairwise("long", &sizes, |s| {
        let mut case = one("prefill", pick(s[4], "causal", "causal + soft_cap(cap=30)"), [4 * s[2], s[2], s[3]]);
        "bf16".clone_into(&mut case.dtype);
        // the reference takes too long for all queries, so the case has the last 130 alone
        batch(&mut case, s[1], s[0].min(130), s[0]);
        pages(&mut case, s[5], 0);
        case
    })
}

fn fp8() -> Vec<Case> {
    let sizes: [&[u32]; 7] = [&[12, 17], &[1, 7, 53], &[54, 97], &[1, 8, 16], &[1, 8], &[64, 128, 256], &[0, 1]];
    pairwise("8 bits", &sizes, |s| {
        let mut case = one(if s[1] == 1 { "decode" } else { "prefill" }, "causal", [4 * s[4], 4, s[5]]);
        case.kv_dtype = Some(pick(s[6], "e4m3", "e5m2").to_owned());
        (case.kv_scale, case.kv_scale_per_head) = (Some(0.05), s[4] == 8);
        batch(&mut case, s[0], s[1], s[2]);
        pages(&mut case, s[3], 0);
        case
    })
}

fn packed() -> Vec<Case> {
    let sizes: [&[u32]; 5] = [&[1, 19, 99], &[1, 7, 127, 999], &[1, 4, 8], &[0, 1], &[64, 128]];
    let mut cases = pairwise("packed", &sizes, |s| {
        let mut case = one("prefill", pick(s[3], "full", "causal"), [8, s[2], s[4]]);
        batch(&mut case, s[0], s[1], s[1]);
        case.pool = Pool::Packed;
        case
    });
    let decoding: [&[u32]; 6] = [&[1, 19, 99], &[1, 7, 127, 999, 3579], &[0, 1, 5], &[1, 4, 8], &[1, 2], &[0, 1]];
    cases.extend(pairwise("packed", &decoding, |s| {
        let mut case = one("decode", "full", [8, s[3], 128]);
        batch(&mut case, s[0], 1, s[1]);
        pages(&mut case, s[2], s[5]);
        case.pool = if s[4] == 1 { Pool::Fused } else { Pool::Padded };
        case
    }));
    cases
}

/// A prompt together with requests that decode.
fn prompt_with_decode() -> Vec<Case> {
    let sizes: [&[u32]; 6] = [&[127, 1288], &[127, 1288], &[1, 17, 127], &[1, 16], &[1, 4], &[0, 1]];
    pairwise("prompt and decode", &sizes, |s| {
        let mut case = one("mixed", pick(s[5], "full", "causal"), [8 * s[4], 8, 128]);
        let lens = |first: u32, len: u32| Lens::List(std::iter::once(first).chain((0..s[2]).map(|_| len)).collect());
        (case.qo_lens, case.kv_lens) = (lens(s[0].min(127), 1), lens(s[0], s[1]));
        pages(&mut case, s[3], 0);
        case
    })
}

/// A ragged case in f16: query heads, KV heads, head dim.
fn one(kernel: &str, variant: &str, [qo_heads, kv_heads, head_dim]: [u32; 3]) -> Case {
    let (kernel, dtype) = (kernel.to_owned(), "f16".to_owned());
    Case { kernel, dtype, qo_heads: qo_heads.max(kv_heads), kv_heads, head_dim, ..Case::new(variant) }
}

fn pick<'a>(which: u32, zero: &'a str, one: &'a str) -> &'a str {
    if which == 0 { zero } else { one }
}

/// Requests of equal lengths.
fn batch(case: &mut Case, requests: u32, qo_len: u32, kv_len: u32) {
    (case.qo_lens, case.kv_lens) =
        (Lens::Repeat { repeat: [requests, qo_len] }, Lens::Repeat { repeat: [requests, kv_len] });
}

/// Pages of `page_size` keys in either order; 0 for ragged keys.
fn pages(case: &mut Case, page_size: u32, order: u32) {
    case.page_order = if order == 0 { Order::Nhd } else { Order::Hnd };
    if page_size > 0 {
        (case.kv_layout, case.page_size) = (LayoutKind::Paged, page_size);
    }
}

/// Cases in which every pair of sizes meets.
fn pairwise(what: &str, sizes: &[&[u32]], make: impl Fn(&[u32]) -> Case) -> Vec<Case> {
    let mut wanted = HashSet::new();
    for (i, a) in sizes.iter().enumerate() {
        for (j, b) in sizes[..i].iter().enumerate() {
            wanted.extend(a.iter().flat_map(|&x| b.iter().map(move |&y| (j, y, i, x))));
        }
    }
    let (mut random, mut cases) = (Random::new(what.len() as u64, sizes.len() as u64), Vec::new());
    while !wanted.is_empty() {
        let new = |row: &[u32]| {
            let met = |&&(j, y, i, x): &&(usize, u32, usize, u32)| row[j] == y && row[i] == x;
            wanted.iter().filter(met).copied().collect::<Vec<_>>()
        };
        let tries = (0..30).map(|_| sizes.iter().map(|s| s[random.below(s.len() as u64) as usize]).collect::<Vec<_>>());
        // the first of the best: the order of a set differs between runs, its counts do not
        let (mut row, mut met) = (Vec::new(), Vec::new());
        for one in tries.collect::<Vec<_>>() {
            let of_one = new(&one);
            if of_one.len() > met.len() {
                (row, met) = (one, of_one);
            }
        }
        if met.is_empty() {
            continue;
        }
        wanted.retain(|pair| !met.contains(pair));
        let case = fit(make(&row));
        cases.push(Case { name: Some(format!("{what}, {}", layout_name(&case))), ..case });
    }
    cases
}

/// The case, or a smaller one: with one KV head, then with half its query heads, fewer requests, fewer queries.
fn fit(mut case: Case) -> Case {
    let dear = |case: &Case| case.check_cost() > 2 * MOST_COST;
    if case.check_cost() > MOST_COST {
        (case.qo_heads, case.kv_heads) = (case.qo_heads / case.kv_heads, 1);
    }
    if dear(&case) && case.qo_heads.is_multiple_of(2) {
        case.qo_heads /= 2;
    }
    while dear(&case) && case.levels.is_empty() {
        let (Lens::Repeat { repeat: [requests, qo] }, Lens::Repeat { repeat: [_, kv] }) =
            (&case.qo_lens, &case.kv_lens)
        else {
            break;
        };
        let (requests, qo, kv) = match *requests {
            1 => (1, qo.div_ceil(2), *kv),
            requests => (requests - requests.div_ceil(4), *qo, *kv),
        };
        batch(&mut case, requests, qo, kv);
    }
    case
}
