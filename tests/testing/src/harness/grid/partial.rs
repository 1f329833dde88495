//! Sinks and output transforms in partial runs and in whole ones, with KV splits and without.

use super::cells::named;
use crate::{Case, LayoutKind, Lens};

/// Both hooks; a sink alone; a sink that enters weights of its own; sums of signed weights with an output transform.
const VARIANTS: [&str; 4] = [
    "causal + sink + output_norm",
    "causal + soft_cap(cap=20) + sink",
    "dropout(rate=0.25) + sink + head_scales",
    "causal + retention",
];

/// Queries and keys of each request: rows of several tiles and rows without keys; few rows over many keys, which are
/// split.
const LENS: [(&str, [&[u32]; 2]); 6] = [
    ("prefill", [&[70, 0, 17, 3], &[300, 9, 40, 0]]),
    ("prefill", [&[5], &[900]]),
    ("decode", [&[1, 1, 0, 1], &[70, 0, 9, 333]]),
    ("decode", [&[1], &[1500]]),
    ("mixed", [&[1, 20, 1], &[700, 300, 0]]),
    ("mixed", [&[40, 1], &[64, 900]]),
];

/// The grid. Each case is there twice: whole, and as a partial run ([`Case::partial`]) of the same kernels.
#[must_use]
pub fn partial() -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, variant) in VARIANTS.into_iter().enumerate() {
        for (at, (kernel, [qo_lens, kv_lens])) in LENS.into_iter().enumerate() {
            let unit = number + at / 2;
            let case = Case {
                kernel: kernel.to_owned(),
                dtype: ["bf16", "f16"][unit % 2].to_owned(),
                kv_layout: [LayoutKind::Paged, LayoutKind::Ragged][unit / 2 % 2],
                page_size: 5,
                head_dim: [64, 128][unit % 2],
                qo_lens: Lens::List(qo_lens.to_vec()),
                kv_lens: Lens::List(kv_lens.to_vec()),
                // prefill splits no keys of so short a batch by itself
                fixed_split_size: (kernel == "prefill" && kv_lens.len() == 1).then_some(256),
                seed: (LENS.len() * number + at) as u64,
                ..Case::new(variant)
            };
            for partial in [false, true] {
                cases.push(named(Case { partial, ..case.clone() }, "partial", cases.len()));
            }
        }
    }
    cases
}
