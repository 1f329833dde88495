//! What tests of this crate share: devices, and attention by candle's own ops.

use candle_core::{D, DType, Device, IndexOp, Result, Tensor};

/// The CPU; with the feature `cuda` also the GPU, by a stream and by the default stream of each thread.
pub(crate) fn devices() -> Vec<Device> {
    let mut devices = vec![Device::Cpu];
    if cfg!(feature = "cuda") {
        let both = Device::new_cuda_with_stream(0).and_then(|first| Ok([first, Device::new_cuda(0)?]));
        devices.extend(attn_needs::needed(attn_needs::Need::Gpu, both).into_iter().flatten());
    }
    devices
}

/// Attention of one request, by candle: `q` of (queries, query heads, dim), `k` and `v` of (keys, KV heads, dim), in
/// f32. `sees` tells whether query `i` sees key `j`.
pub(crate) fn reference(q: &Tensor, k: &Tensor, v: &Tensor, sees: impl Fn(usize, usize) -> bool) -> Result<Tensor> {
    reference_with(q, k, v, sees, |logits| Ok(logits.clone()))
}

/// [`reference`] with a function of the scaled logits.
pub(crate) fn reference_with(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    sees: impl Fn(usize, usize) -> bool,
    logits: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (queries, heads, dim) = q.dims3()?;
    let (keys, kv_heads, _) = k.dims3()?;
    let wide = |of: &Tensor| of.to_dtype(DType::F32)?.to_device(&Device::Cpu)?.transpose(0, 1)?.contiguous();
    let repeated = |of: &Tensor| {
        let rows = wide(of)?;
        let of_head = |head: usize| rows.i(head / (heads / kv_heads));
        Tensor::stack(&(0..heads).map(of_head).collect::<Result<Vec<_>>>()?, 0)
    };
    let (q, k, v) = (wide(q)?, repeated(k)?, repeated(v)?);
    let scores = logits(&(q.matmul(&k.transpose(1, 2)?)? / (dim as f64).sqrt())?)?;
    let mask: Vec<f32> = (0..queries)
        .flat_map(|i| (0..keys).map(move |j| (i, j)))
        .map(|(i, j)| if sees(i, j) { 0.0 } else { f32::NEG_INFINITY })
        .collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?)?;
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    weights.matmul(&v)?.transpose(0, 1)?.contiguous()
}

/// Which keys a causal query sees, where the last query sees all.
pub(crate) fn causal(queries: usize, keys: usize) -> impl Fn(usize, usize) -> bool {
    move |i, j| j + queries <= i + keys
}

/// The elements, in f32.
pub(crate) fn values(of: &Tensor) -> Vec<f32> {
    let flat = of.to_dtype(DType::F32).and_then(|of| of.flatten_all());
    flat.and_then(|of| of.to_vec1()).expect("a tensor")
}

/// Compares elements; `tolerance` is that of f32, and types of 16 bits have more.
#[track_caller]
pub(crate) fn assert_close(got: &Tensor, want: &Tensor, tolerance: f32) {
    assert_eq!(got.dims(), want.dims());
    let (got_values, want_values) = (values(got), values(want));
    let worst = got_values.iter().zip(&want_values).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(
        worst <= tolerance && got_values.iter().all(|x| x.is_finite()),
        "{worst} > {tolerance} of {:?}",
        got.dtype()
    );
}

/// What an element type and a device allow.
pub(crate) fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => 2e-5,
        DType::F16 => 8e-3,
        _ => 4e-2,
    }
}
