//! The parameters of sm_90 prefill, with tensor maps as `arch/tma_load.cpp` reads them.

use attn_core::batch::Layout;
use attn_kernels::{
    kernel_traits::KernelTraits,
    launch::{KernelParams, Sm90Params, Strided, TensorMap, box_rows},
};
use attn_testing::{Case, Inputs};

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
    let (page_size, list_block) = (layout.pages().map(|pages| pages.page_size()), params.list_block.divisor);
    let kv_rows = box_rows(traits, page_size, (list_block > 0).then_some(list_block));
    let (tokens, requests) = (layout.preprocessed_keys() as u64, layout.batch() as u64);
    let ([keys, values], (key_dim, value_dim, pre_rows)) =
        (traits.facts().preprocessed, traits.kv_extents(tokens, requests));
    let kv = |shape: &[usize], at: Strided, pre: Option<Strided>, dim: u32| {
        let (pages, tokens) = if shape.len() == 4 { (shape[0], shape[1]) } else { (1, shape[0]) };
        let kv_heads = heads.kv.into();
        let (at, tokens, pages, rows) = match pre {
            Some(pre) if list_block == 0 => (pre, pre_rows, 1, traits.facts().tile_keys),
            Some(pre) => (pre, pre_rows, 1, kv_rows),
            None => (at, tokens as u64, pages as u64, kv_rows),
        };
        let sizes = [dim.into(), tokens, kv_heads, pages];
        if rows == 0 { TensorMap::default() } else { encode(at.data, sizes, [at.token, at.head, at.page], [rows, 1]) }
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
        box_rows: kv_rows as i32,
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
