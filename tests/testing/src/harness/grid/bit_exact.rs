//! Cases for comparing bits.

use super::cells::{Lengths, named, set_lens};
use crate::Case;

/// Cases for [`bit_exact`](crate::bit_exact()): every kernel with some variants, each with another type and head dim.
#[must_use]
pub fn bit_exact() -> Vec<Case> {
    let lens: [(&str, Lengths); 3] = [
        ("prefill", (&[17, 1, 70, 0, 5], &[300, 33, 2100, 9, 0])),
        ("decode", (&[1, 1, 0, 1, 1], &[2500, 65, 9, 1, 700])),
        ("mixed", (&[64, 1, 1, 0, 3], &[300, 2100, 16, 9, 33])),
    ];
    let types = [("f16", None, 64), ("bf16", Some("e4m3"), 128), ("bf16", None, 128), ("f16", None, 256)];
    let variants = [
        "full",
        "causal + rope",
        "causal + sliding_window(window=100) + soft_cap(cap=30)",
        "causal + alibi + sink",
        "value_norm",
        "causal + qk_norm + rope",
        "causal + custom_mask(size=150000)",
    ];
    let mut cases = Vec::new();
    for (kernel, lens) in &lens {
        for (at, variant) in variants.into_iter().enumerate() {
            let (dtype, kv_dtype, head_dim) = types[at % types.len()];
            let mut case = Case::new(variant);
            (*kernel).clone_into(&mut case.kernel);
            dtype.clone_into(&mut case.dtype);
            case.kv_dtype = kv_dtype.map(str::to_owned);
            (case.head_dim, case.kv_heads, case.qo_heads) = (head_dim, 2, 2 * [1, 4, 3, 8][at % 4]);
            set_lens(&mut case, lens);
            case.seed = cases.len() as u64;
            cases.push(named(case, "same", at));
        }
    }
    cases
}
