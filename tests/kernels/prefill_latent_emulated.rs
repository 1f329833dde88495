//! Prefill of latent attention on WGMMA and TMA runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::lang::kv_format::{EncodeRow, KvFormat, Packed, PackedMut};
use attn_core::spec::{HeadDimVo, PrefillBackend};
use attn_core::{VariantParams, bits};
use attn_testing::{Case, LayoutKind, Lens, grid};
use attn_tests::simt;

fn check(cases: impl IntoIterator<Item = Case>) {
    let cases: Vec<Case> = cases.into_iter().collect();
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
}

/// Requests of an odd and an even number of KV tiles, of one tile, and without queries or keys; of few and of many
/// heads, in pages of as many keys as TMA loads at once, of fewer, or without pages.
fn case(variant: &str, number: usize) -> Case {
    let heads = [16, 128, 5, 64][number % 4];
    let queries = if heads < 64 { vec![17, 0, 2, 1] } else { vec![1, 0, 3, 1] };
    Case {
        name: Some(format!("{variant} of {heads} heads")),
        kernel: "prefill".to_owned(),
        dtype: ["bf16", "f16"][number / 2 % 2].to_owned(),
        head_dim: if number % 5 == 4 { 512 } else { 576 },
        head_dim_vo: HeadDimVo::SharedWithKeys(512),
        qo_heads: heads,
        kv_heads: 1,
        kv_layout: [LayoutKind::Paged, LayoutKind::Paged, LayoutKind::Ragged][number % 3],
        page_size: [64, 5, 16, 8][number % 4],
        qo_lens: Lens::List(queries),
        kv_lens: Lens::List(vec![330, 9, 128, 0]),
        seed: number as u64,
        ..Case::new(variant)
    }
}

/// Hooks of every kind that leaves keys and values as they are stored: masks, slopes, sinks, weights, and those of
/// queries, logits and outputs.
#[test]
fn stock_variants() {
    let variants = [
        "full",
        "causal",
        "causal + soft_cap(cap=30)",
        "causal + alibi",
        "sliding_window(window=70)",
        "causal + sink",
        "streaming(sink=4, window=100)",
        "sigmoid",
        "causal + max_logit",
        "causal + temperature(floor_scale=7, attn_scale=0.5)",
        "causal + log_scale + relative_bias(max_distance=20)",
    ];
    check(variants.into_iter().enumerate().map(|(number, variant)| case(variant, number)));
}

#[test]
fn the_latent_grid() {
    check(simt::sample(&grid::latent(), "prefill", 24));
}

/// Items of a part of a request's keys, whose rows are merged; rows are rescaled one by one.
#[test]
fn splits() {
    let of = |(number, variant)| Case { fixed_split_size: Some([128, 64][number % 2]), ..case(variant, number) };
    check(["causal", "full", "causal + alibi"].into_iter().enumerate().map(of));
}

/// Keys of 8 bits and of KV formats are decoded as they are loaded; outputs have another type.
#[test]
fn element_types() {
    let outputs = |number, variant| Case { o_dtype: Some("e4m3".to_owned()), ..case(variant, number) };
    check([outputs(1, "causal"), outputs(4, "causal + sink")]);
    let keys = |(dtype, first): (&'static str, usize)| {
        let of = move |number: usize, variant| case(variant, first + number).over_format(dtype);
        [of(0, "causal"), of(1, "full"), of(2, "causal + alibi")].into_iter().flatten().chain(over_lists(dtype))
    };
    check([("e4m3", 0), ("e5m2", 1), ("ds_mla", 5), ("int8", 2), ("int4(group=32)", 3)].into_iter().flat_map(keys));
}

/// Keys that a cluster decodes, since a query has more heads than a CTA has rows: all rows of the second CTA, some, or
/// none in the last tile of a request; requests whole, in splits, and along lists.
#[test]
fn clusters() {
    let of = |(at, dtype): (usize, &'static str)| {
        let cases = ["causal", "full", "causal + alibi", "sliding_window(window=70)"].into_iter().enumerate();
        let cases = cases.map(move |(number, variant)| {
            let (number, split) = (at + number, [None, Some(64), None, Some(128)][number]);
            let qo_heads = [128, 80, 136][number % 3];
            Case { qo_heads, head_dim: 576, fixed_split_size: split, ..case(variant, 4 * number + 1) }
        });
        let qo_lens = Lens::List(vec![2, 0, 1, 1]);
        let lists = lists().take(2).map(move |case| Case { qo_heads: 128, qo_lens: qo_lens.clone(), ..case });
        cases.chain(lists).filter_map(move |case| case.over_format(dtype))
    };
    check(["e4m3", "ds_mla", "int8", "int4(group=32)"].into_iter().enumerate().flat_map(of));
}

/// e4m3 whose scale is a sum over all bytes of the side data. It is no f16, and takes more numbers than a thread of the
/// producer keeps of a row.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
struct ScaledBySide;

#[attn_core::kv_format(name = "scaled_by_side")]
impl KvFormat for ScaledBySide {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn side_bytes(&self, _dim: i32) -> i32 {
        24
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        for i in 0..24 {
            side.set_u8(i, 1);
        }
        codes.pack8(0, x, 0, x.dim(), |_, v| bits::e4m3_bits(v / (24.0 * 0.0041)));
    }
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let mut sum = 0u32;
        for i in 0..24 {
            sum += side.u8(i);
        }
        codes.scaled_e4m3(d, sum as f32 * 0.0041)
    }
}

#[test]
fn scales_that_are_no_f16_and_rows_of_many_numbers() {
    check((0..4).filter_map(|number| case("causal", number).over_format("scaled_by_side")));
}

/// Logits that exceed row_max of the tiles before.
#[test]
fn large_logits() {
    check((0..3).map(|number| Case { q_std: Some(8.0), ..case("causal", number) }));
}

/// Keys of a list, such as those that an indexer chooses (DSA), with masks over their positions.
#[test]
fn key_lists() {
    check(lists());
}

fn lists() -> impl Iterator<Item = Case> {
    let latent = |case: Case| Case { head_dim: 576, head_dim_vo: HeadDimVo::SharedWithKeys(512), ..case };
    let lists = simt::key_lists("prefill").into_iter();
    lists.map(move |case| Case { qo_heads: 4 * case.qo_heads / case.kv_heads, kv_heads: 1, ..latent(case) })
}

fn over_lists(dtype: &'static str) -> impl Iterator<Item = Case> {
    lists().filter_map(move |case| case.over_format(dtype))
}
