//! The lazy row max of sm_90 prefill at head dims above 128: logits that overflow the stale max are recomputed from Q
//! and K in global memory, while the stages may hold other tiles.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, LayoutKind, Lens};
use attn_tests::simt;

/// Large logits over several KV tiles of 80 keys, in several work items of a CTA. Later tiles exceed the first row max
/// by far more than an exponent's range.
fn large_logits(variant: &str, dtype: &str, head_dim: u32, qo_heads: u32, seed: u64) -> Case {
    Case {
        kernel: "prefill".to_owned(),
        dtype: dtype.to_owned(),
        qo_heads,
        head_dim,
        kv_layout: LayoutKind::Ragged,
        qo_lens: Lens::List(vec![70, 3, 0, 129]),
        kv_lens: Lens::List(vec![330, 250, 9, 200]),
        q_std: Some([40.0, 100.0][seed as usize % 2]),
        seed,
        ..Case::new(variant)
    }
}

#[test]
fn logits_that_overflow_late_are_recomputed() {
    let cases = (0..2).flat_map(|seed| {
        [
            large_logits("full", "bf16", 256, 4, seed),
            large_logits("causal", "f16", 256, 6, seed),
            large_logits("causal + alibi + sink", "bf16", 192, 2, seed),
        ]
    });
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
}
