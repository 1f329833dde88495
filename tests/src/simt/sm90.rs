//! The parameters of sm_90 prefill, with tensor maps as `arch/tma_load.cpp` reads them.

use attn_core::batch::Layout;
use attn_kernels::{
    kernel_traits::KernelTraits,
    launch::{KernelParams, Sm90Params, Strided, TensorMap},
};
use attn_testing::{Case, Inputs};

/// Rows after which the swizzle pattern repeats; boxes of K and V have a multiple of them.
const PATTERN_ROWS: u32 = 8;
/// Rows of O that a warp stores, which are whole tokens where TMA moves them, as rows of Q of a warpgroup are.
const OUTPUT_ROWS: u32 = 16;

/// The third parameter of the kernel, as a launch on a GPU makes it (attn-kernels/src/cuda/run/sm90_launch.rs).
pub(super) fn params(
    case: &Case,
    inputs: &Inputs,
    layout: &Layout,
    traits: &KernelTraits,
    params: &KernelParams,
    items: u32,
) -> Sm90Params {
    let (heads, group) = (case.heads(), case.heads().group());
    let divides_both = |page: u32| {
        let divides = |rows: &u32| page.is_multiple_of(*rows) && traits.facts().tile_keys.is_multiple_of(*rows);
        let common = (1..=traits.facts().tile_keys).rev().find(divides).unwrap_or(0);
        if common.is_multiple_of(PATTERN_ROWS) { common } else { 0 }
    };
    let page_size = layout.pages().map_or(0, |pages| pages.page_size());
    let by_rows = traits.decodes_keys();
    let box_rows = if traits.common.paged && !by_rows { divides_both(page_size) } else { 0 };
    let (tokens, requests) = (layout.preprocessed_keys() as u64, layout.batch() as u64);
    let ([keys, values], (key_dim, value_dim, pre_rows)) =
        (traits.facts().preprocessed, traits.kv_extents(tokens, requests));
    let kv = |shape: &[usize], at: Strided, pre: Option<Strided>, dim: u32| {
        let (pages, tokens) = if shape.len() == 4 { (shape[0], shape[1]) } else { (1, shape[0]) };
        let kv_heads = heads.kv.into();
        match pre {
            Some(pre) => {
                let sizes = [dim.into(), pre_rows, kv_heads, 1];
                encode(pre.data, sizes, [pre.token, pre.head, pre.page], [traits.facts().tile_keys, 1])
            }
            None if by_rows || traits.common.paged && box_rows == 0 => TensorMap::default(),
            None => {
                let rows = if traits.common.paged { box_rows } else { traits.facts().tile_keys };
                let sizes = [dim.into(), tokens as u64, kv_heads, pages as u64];
                encode(at.data, sizes, [at.token, at.head, at.page], [rows, 1])
            }
        }
    };
    let packed = |at: Strided, dim: u32, whole: u32, rows: u32| {
        let sizes = [dim.into(), heads.qo.into(), layout.qo_tokens() as u64, 1];
        let map = || encode(at.data, sizes, [at.head, at.token, at.page], [group, rows / group]);
        whole.is_multiple_of(group).then(map)
    };
    let [whole, rows] = traits.facts().query_rows(group);
    // neither stored queries nor outputs of another type go through maps
    let q = packed(params.q, traits.common.head_dim, whole, rows).filter(|_| traits.common.dtypes.q.is_none());
    let o = packed(params.o, traits.common.value_dim, OUTPUT_ROWS, OUTPUT_ROWS)
        .filter(|_| traits.common.dtypes.o.is_none());
    Sm90Params {
        k: kv(&inputs.kv_shape, params.k, keys.then_some(params.k_pre), key_dim),
        v: kv(&inputs.v_shape, params.v, values.then_some(params.v_pre), value_dim),
        q: q.unwrap_or_default(),
        o: o.unwrap_or_default(),
        box_rows: box_rows as i32,
        items: items as i32,
        // any number gives the same result
        heads: [4, 1, 2][case.seed as usize % 3].min(heads.kv as i32),
        use_tma_q: q.is_some().into(),
        use_tma_o: o.is_some().into(),
        skip_threshold: case.skip_softmax.map_or(0.0, |threshold| threshold * std::f32::consts::LOG2_E),
        ..Sm90Params::default()
    }
}

/// A map of boxes of 64 elements by `boxes` of the next two dimensions. Strides are in elements.
fn encode(data: u64, sizes: [u64; 4], strides: [i64; 3], boxes: [u32; 2]) -> TensorMap {
    let mut words = [0; 16];
    words[0] = data;
    words[1..5].copy_from_slice(&sizes);
    words[5..8].copy_from_slice(&strides.map(|stride| stride.unsigned_abs() * 2));
    words[8..10].copy_from_slice(&boxes.map(u64::from));
    TensorMap { words }
}
