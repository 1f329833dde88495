//! Target: expressions of variants, which are parsed, printed, bound and spliced.

use attn_core::{Variant, lang::Dims};

use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let expressions = [
        "full",
        "causal",
        "causal + sliding_window(window=4096) + rope(theta=10000, scale=1, interleaved=false) + soft_cap(cap=50)",
        "or(causal + sliding_window(window=9), prefix_lm(prefix=[7, 3])) + soft_cap(cap=30)",
        "remap(batchify(block=16), causal + alibi + rope)",
        "per_head(heads=[0, 0, 1, 1], rope + causal + sink(logits=[0, 0, 0, 0]), qk_norm + alibi) + not(full)",
        "causal + union(sliding_window(window=70), full)",
        "alibi(slopes=[0.5, 0.25, 0.125, 0.0625]) + causal",
        "not(or(causal, not(sliding_window(window=3)), full))",
        "dropout(rate=0.5) + logits_dump",
        "((causal)) + (alibi + soft_cap(cap=-inf))",
        "t5_bias(table=[[1, 2.5e-3, -0.5, 7_000], [1, 2, 3, 4]])",
    ];
    expressions.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Small sizes, with which a variant is bound.
pub(crate) fn dims() -> Dims {
    Dims {
        qo_heads: Some(4),
        kv_heads: Some(2),
        head_dim: Some(16),
        value_dim: Some(16),
        batch: Some(2),
        qo_tokens: Some(8),
        kv_tokens: Some(24),
    }
}

/// Checks a variant that was accepted: its text means the same, and it binds or is refused.
pub(crate) fn check(variant: &Variant) {
    let text = variant.to_string();
    let again = Variant::parse(&text).unwrap_or_else(|error| panic!("`{text}` is not read back: {error}"));
    assert_eq!(again.to_string(), text);
    let _ = variant.missing(&dims());
    let _ = variant.clone().bind(&dims());
    let _ = attn_kernels::splice::variant::variant_source(variant);
}

pub(crate) fn run(data: &[u8]) -> Seen {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let text = String::from_utf8_lossy(data);
    match Variant::parse(&text) {
        Ok(variant) => {
            check(&variant);
            Seen::Accepted
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Seen::Refused
        }
    }
}
