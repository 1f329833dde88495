//! The expressions of the serving grid: every stock variant by itself, and compositions that occur in models.

/// An expression, and its requirements on a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The expression. `HEADS` stands for a branch number (0 or 1) per query head. `GROUPS` stands for the same with
    /// one number for all query heads of a KV head.
    pub(super) expr: &'static str,
    /// The requirements on a case.
    pub(super) needs: Needs,
}

/// The requirements of an expression on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// No requirement.
    Any,
    /// Tables over rows and columns: at most 80 queries and 600 keys a request.
    Short,
    /// Shared keys must be whole pages: hooks on keys and values read coordinates of one request.
    Flat,
    /// No mixed kernel outside of cascades, because it does not support the branches of a union. Also what `Flat`
    /// needs.
    Branches,
    /// The expression has KV lists, which [`lists`](super::lists) writes. No cascade and no mixed kernel.
    Lists,
}

const fn any(expr: &'static str) -> Row {
    Row { expr, needs: Needs::Any }
}

const fn short(expr: &'static str) -> Row {
    Row { expr, needs: Needs::Short }
}

const fn flat(expr: &'static str) -> Row {
    Row { expr, needs: Needs::Flat }
}

const fn branches(expr: &'static str) -> Row {
    Row { expr, needs: Needs::Branches }
}

const fn lists(expr: &'static str) -> Row {
    Row { expr, needs: Needs::Lists }
}

/// Every stock variant occurs.
pub(super) const ROWS: &[Row] = &[
    // single parts
    any("full"),
    any("causal"),
    any("sliding_window(window=33)"),
    any("bidirectional_window(left=90, right=4)"),
    any("dilated_window(window=400, dilation=3)"),
    any("streaming(sink=4, window=600)"),
    any("chunked(chunk=640)"),
    any("block_causal(block=7)"),
    any("block_diffusion(length=60, block=6)"),
    any("prefix_lm"),
    any("documents"),
    any("document_spans"),
    any("causal_documents"),
    any("packed_documents"),
    any("image_spans"),
    any("shared_prefix(documents=4)"),
    any("flash_mask"),
    any("global_window(window=20)"),
    any("multi_item"),
    any("tree(width=64)"),
    any("custom_mask(size=150000)"),
    any("block_mask(q_block=16, kv_block=32, q_blocks=9, kv_blocks=70)"),
    any("soft_cap(cap=30)"),
    any("alibi"),
    any("relative_bias(max_distance=50)"),
    any("t5_bias"),
    short("pair_bias(rows=80, columns=600)"),
    any("log_scale(min_len=10)"),
    any("temperature(floor_scale=7, attn_scale=0.5)"),
    any("head_scales"),
    flat("token_scales"),
    any("rope"),
    any("rope_table(positions=4096, rotary_dim=64)"),
    any("llama3_rope(original_len=64)"),
    any("yarn(factor=4, original_len=512)"),
    any("qk_norm"),
    any("cosine"),
    any("value_norm"),
    flat("k_smoothing"),
    any("sink"),
    any("softmax_n(n=2.5)"),
    any("softpick"),
    any("sigmoid(bias=-4)"),
    any("relu"),
    any("causal + retention"),
    any("dropout(rate=0.3, seed=99)"),
    any("head_gate"),
    any("output_gate"),
    any("output_norm"),
    any("output_scale"),
    short("logits_dump(columns=600)"),
    any("max_logit"),
    lists("page_list"),
    lists("token_list"),
    lists("block_sparse"),
    lists("block_sparse_masked"),
    any("remap(batchify(block=900), causal + alibi)"),
    any("remap(chunk_positions(qo_start=1101, kv_start=90), causal + sliding_window(window=1030))"),
    flat("streaming(sink=4, window=700) + remap(cache_positions(sink=4, window=700), rope)"),
    flat("remap(positions, causal + rope)"),
    // compositions
    any("causal + sliding_window(window=128)"),
    any("causal + sliding_window(window=1000)"),
    any("causal + soft_cap(cap=50)"),
    any("causal + alibi"),
    any("causal + sink"),
    any("causal + sigmoid(bias=-6)"),
    any("causal + custom_mask(size=150000)"),
    any("custom_mask(size=150000) + alibi + soft_cap(cap=30)"),
    any("causal + rope(interleaved=true, theta=500000)"),
    any("causal + rope(rotary_dim=32, scale=4)"),
    any("causal + qk_norm + rope"),
    any("causal + rope + soft_cap(cap=30)"),
    any("causal + rope + value_norm"),
    any("causal + sliding_window(window=65) + soft_cap(cap=30)"),
    any("causal + sliding_window(window=127) + sink"),
    any("causal + sliding_window(window=513) + rope + sink"),
    any("causal + sliding_window(window=128) + yarn(theta=150000, factor=32, truncate=false) + sink"),
    any("causal + alibi + soft_cap(cap=20)"),
    any("causal + chunked(chunk=640) + rope(theta=500000, interleaved=true) + qk_norm(eps=1e-5)"),
    any("causal + temperature(floor_scale=16)"),
    any("causal + qk_norm + rope(rotary_dim=32) + output_gate"),
    any("causal + head_gate + sink"),
    any("causal + dropout(rate=0.1, seed=7) + alibi"),
    any("streaming(sink=4, window=60) + rope"),
    any("prefix_lm + soft_cap(cap=50)"),
    any("tree(width=64) + rope"),
    any("multi_item + rope"),
    any("causal + documents + alibi"),
    any("not(bidirectional_window(left=0, right=0))"),
    any("causal + or(sliding_window(window=64), not(chunked(chunk=100)))"),
    any("causal + per_head(heads=[HEADS], full, streaming(sink=3, window=120))"),
    any("causal + per_head(heads=[GROUPS], rope, alibi)"),
    flat("causal + k_smoothing + head_scales"),
    branches("rope + union(causal + sliding_window(window=64), not(causal) + soft_cap(cap=3))"),
    branches(
        "causal + union(sliding_window(window=100), streaming(sink=300, window=100) + not(sliding_window(window=100)))",
    ),
    lists("causal + page_list"),
    lists("rope + page_list"),
    lists("causal + token_list"),
    lists("causal + rope + block_sparse"),
    // added later, so that the cases of the rows above stay as they were recorded
    any("silu"),
    any("differential(lambda=0.5, scale=0.75)"),
    flat("remap(interleaved_positions(ranks=4, rank=1, interleave=16), causal + alibi)"),
    any("causal + hadamard"),
];
