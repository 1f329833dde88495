//! Merges of partial states.

use attn_core::dtype::Dtype;
use attn_core::ops::{Array, StateMut, StateRef, lse, merge};
use attn_core::tensor::{Out, TensorMut, TensorRef};

use super::launch::OpLaunch;
use super::{Op, ctas, in_sixteens, stride};
use crate::cuda::driver::uses::Access::{self, Read, Write};
use crate::cuda::{CudaError, CudaStream};
use crate::launch::{FastDiv, MergeParams, MergeStates, OP_THREADS, RowTiling, ScaleLseParams};

/// Launches the kernel of [`attn_core::ops::merge::merge_state`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn merge_state(stream: &CudaStream, a: &StateRef<'_>, b: &StateRef<'_>, out: &Out<'_>) -> Result<(), CudaError> {
    let sizes = merge::check_two(a, b, out)?;
    let mut launch = OpLaunch::default();
    let params = MergeParams {
        many: states(&mut launch, Read, ["a.o", "a.lse"], &a.o, Some(&a.lse))?,
        other: states(&mut launch, Read, ["b.o", "b.lse"], &b.o, Some(&b.lse))?,
        out: output(&mut launch, &out.o, out.lse.as_ref())?,
        states: 1,
        others: 1,
        ..MergeParams::default()
    };
    run(stream, launch, sizes, out.o.dtype(), params)
}

/// Launches the kernel of [`attn_core::ops::merge::merge_state_in_place`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn merge_state_in_place(
    stream: &CudaStream,
    a: &StateMut<'_>,
    b: &StateRef<'_>,
    mask: Option<&Array<'_, u8>>,
) -> Result<(), CudaError> {
    let sizes = merge::check_in_place(a, b, mask)?;
    let mut launch = OpLaunch::default();
    let of_a = states(&mut launch, Write, ["a.o", "a.lse"], &a.o.as_ref(), Some(&a.lse.as_ref()))?;
    let params = MergeParams {
        many: of_a,
        other: states(&mut launch, Read, ["b.o", "b.lse"], &b.o, Some(&b.lse))?,
        out: of_a,
        mask: launch.read_if("mask", mask)?,
        states: 1,
        others: 1,
        ..MergeParams::default()
    };
    run(stream, launch, sizes, a.o.dtype(), params)
}

/// Launches the kernel of [`attn_core::ops::merge::merge_states`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn merge_states(stream: &CudaStream, of: &StateRef<'_>, out: &Out<'_>) -> Result<(), CudaError> {
    let sizes = merge::check_many(of, out)?;
    let mut launch = OpLaunch::default();
    let params = MergeParams {
        many: states(&mut launch, Read, ["states.o", "states.lse"], &of.o, Some(&of.lse))?,
        out: output(&mut launch, &out.o, out.lse.as_ref())?,
        states: of.o.shape()[1] as i32,
        ..MergeParams::default()
    };
    run(stream, launch, sizes, out.o.dtype(), params)
}

/// Launches the kernel of [`attn_core::ops::merge::sum`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn sum(stream: &CudaStream, a: &TensorRef<'_>, b: &TensorRef<'_>, o: &TensorMut<'_>) -> Result<(), CudaError> {
    let sizes = merge::check_sum(a, b, o)?;
    let mut launch = OpLaunch::default();
    let params = MergeParams {
        many: states(&mut launch, Read, ["a", ""], a, None)?,
        other: states(&mut launch, Read, ["b", ""], b, None)?,
        out: output(&mut launch, o, None)?,
        states: 1,
        others: 1,
        sums: 1,
        ..MergeParams::default()
    };
    run(stream, launch, sizes, o.dtype(), params)
}

/// Launches the kernel of [`attn_core::ops::lse::scale`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn scale_lse(stream: &CudaStream, of: &TensorMut<'_>, factor: f32) -> Result<(), CudaError> {
    lse::check(of)?;
    let (shape, strides) = (of.shape(), of.strides());
    let (heads, head) = if shape.len() == 2 { (shape[1], stride(shape, strides, 1)) } else { (1, 0) };
    let mut launch = OpLaunch::default();
    let params = ScaleLseParams {
        lse: launch.write_tensor("lse", of)?,
        token: stride(shape, strides, 0),
        head,
        count: (shape[0] * heads) as i64,
        heads: FastDiv::new(heads as u32),
        factor,
    };
    let kernel = launch.ordered(stream, Op::Lse, 0)?;
    let grid = ctas("log-sum-exps", params.count as u64, OP_THREADS.into())?;
    // SAFETY: the caller promised the memory of the tensor when it made it, and its extents are checked.
    unsafe { kernel.launch((grid, 1), OP_THREADS, 0, &params) }
}

/// The states of a tensor of (tokens, heads, dim) or (tokens, states, heads, dim) and its log-sum-exps.
fn states<'a>(
    launch: &mut OpLaunch<'a>,
    access: Access,
    names: [&'static str; 2],
    o: &TensorRef<'a>,
    lse: Option<&TensorRef<'a>>,
) -> Result<MergeStates, CudaError> {
    // strides of tokens, states, heads; with two dimensions there is no stride of states
    let three = |tensor: &TensorRef<'_>, rank: usize| {
        let at = |dim| stride(tensor.shape(), tensor.strides(), dim);
        if rank == 3 { [at(0), at(1), at(2)] } else { [at(0), 0, at(1)] }
    };
    let [o_token, o_state, o_head] = three(o, o.shape().len() - 1);
    let [lse_token, lse_state, lse_head] = lse.map_or([0; 3], |lse| three(lse, lse.shape().len()));
    let o = launch.tensor(access, names[0], o)?;
    let lse = lse.map_or(Ok(0), |lse| launch.tensor(access, names[1], lse))?;
    Ok(MergeStates { o, lse, o_token, o_state, o_head, lse_token, lse_state, lse_head })
}

fn output<'a>(
    launch: &mut OpLaunch<'a>,
    o: &'a TensorMut<'_>,
    lse: Option<&'a TensorMut<'_>>,
) -> Result<MergeStates, CudaError> {
    states(launch, Write, ["o", "lse"], &o.as_ref(), lse.map(TensorMut::as_ref).as_ref())
}

fn run(
    stream: &CudaStream,
    launch: OpLaunch<'_>,
    [tokens, heads, dim]: [usize; 3],
    dtype: Dtype,
    params: MergeParams,
) -> Result<(), CudaError> {
    let size = dtype.size();
    let of = |s: &MergeStates| s.o == 0 || in_sixteens(s.o, size, &[s.o_token, s.o_state, s.o_head]);
    let wide = (dim * size).is_multiple_of(16) && [&params.many, &params.other, &params.out].into_iter().all(of);
    let share = share(heads, if wide { dim * size / 16 } else { dim });
    let rows = (tokens * heads) as u64;
    let mut params = MergeParams { rows: rows as i64, share, ..params };
    if dim == 0 {
        params.out.o = 0; // only log-sum-exps are merged
    }
    let kernel = launch.ordered(stream, Op::Merge(dtype), usize::from(!wide))?;
    let nothing = params.out.o == 0 && params.out.lse == 0;
    let grid = if nothing { 0 } else { ctas("rows", rows, share.rows as u64)? };
    // SAFETY: the caller promised the memory of the tensors when it made them, and their extents are checked.
    unsafe { kernel.launch((grid, 1), OP_THREADS, 0, &params) }
}

/// How the threads of a CTA share rows of `chunks` chunks.
pub(super) fn share(heads: usize, chunks: usize) -> RowTiling {
    let rows = (OP_THREADS as usize / chunks.max(1)).max(1);
    RowTiling { heads: FastDiv::new(heads as u32), chunks: FastDiv::new(chunks as u32), rows: rows as i32, pad: 0 }
}
