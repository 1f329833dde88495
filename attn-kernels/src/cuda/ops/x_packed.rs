//! Conversion between x-packed caches, whose keys are in chunks of x elements, and paged pools.

use attn_core::ops::x_packed::{self, Sizes};
use attn_core::ops::{KvMut, KvRef, OpError};
use attn_core::tensor::{TensorError, TensorMut, TensorRef};

use super::launch::OpLaunch;
use super::{Op, ctas, in_sixteens, stride};
use crate::cuda::driver::order::sides;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::cuda::{CudaError, CudaStream};
use crate::launch::{FastDiv, OP_THREADS, XPackedParams, XPackedPart};

/// Bytes of shared memory of a tile.
const TILE_BYTES: usize = 32 * 1024;

/// Launches the kernel of [`attn_core::ops::x_packed::to_pages`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn to_pages(
    stream: &CudaStream,
    k: &TensorRef<'_>,
    v: &TensorRef<'_>,
    pools: &mut KvMut<'_>,
) -> Result<(), CudaError> {
    for (part, name) in ["k pool", "v pool"].into_iter().enumerate().take(pools.as_ref().parts().count()) {
        disjoint(name, &pools.part(part).map_err(OpError::from)?)?;
    }
    run(stream, k, v, &pools.as_ref(), true)
}

/// Launches the kernel of [`attn_core::ops::x_packed::from_pages`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn from_pages(
    stream: &CudaStream,
    pools: &KvRef<'_>,
    k: &TensorMut<'_>,
    v: &TensorMut<'_>,
) -> Result<(), CudaError> {
    disjoint("packed k", k)?;
    disjoint("packed v", v)?;
    run(stream, &k.as_ref(), &v.as_ref(), pools, false)
}

fn disjoint(tensor: &'static str, of: &TensorMut<'_>) -> Result<(), CudaError> {
    let (shape, strides) = (of.shape().to_vec(), of.strides().to_vec());
    if of.is_disjoint() { Ok(()) } else { Err(TensorError::Overlap { tensor, shape, strides }.into()) }
}

fn run(
    stream: &CudaStream,
    k: &TensorRef<'_>,
    v: &TensorRef<'_>,
    pools: &KvRef<'_>,
    to_pages: bool,
) -> Result<(), CudaError> {
    let sizes = x_packed::check(k, v, pools)?;
    let Sizes { pages, slots, heads, dim_k, dim_v, x } = sizes;
    let size = k.dtype().size();
    let number = match size {
        4 => 0,
        2 => 1,
        _ => 2,
    };
    let mut params = XPackedParams {
        heads: FastDiv::new(heads as u32),
        slots: slots as i32,
        to_pages: i32::from(to_pages),
        ..XPackedParams::default()
    };
    let (mut launch, mut smem) = (OpLaunch::default(), 0);
    let of_pool = if to_pages { Write } else { Read };
    let of_packed = if to_pages { Read } else { Write };
    launch.uses(of_pool, sides(&pools.sides()));
    let names = [["packed k", "k pool"], ["packed v", "v pool"]];
    for (part, (packed, pool)) in [k, v].into_iter().zip(pools.parts()).enumerate() {
        let (dim, x) = if part == 0 { (dim_k, x) } else { (dim_v, 1) };
        let row_bytes = (dim * size).next_multiple_of(16) + 16;
        let tile = (TILE_BYTES / row_bytes).clamp(1, slots.max(1));
        smem = smem.max(tile * row_bytes);
        let bytes = |tensor: &TensorRef<'_>, dim| stride(tensor.shape(), tensor.strides(), dim) * size as i64;
        // (blocks, heads, chunks, slots, x), and (blocks, heads, dim, slots)
        let strides = [0, 1, 2, 3].map(|dim| bytes(packed, dim));
        let [pool_page, pool_slot, pool_head] = [0, 1, 2].map(|dim| bytes(&pool, dim));
        let packed_ptr = launch.tensor(of_packed, names[part][0], packed)?;
        let pool_ptr = launch.tensor(of_pool, names[part][1], &pool)?;
        params.part[part] = XPackedPart {
            packed: packed_ptr,
            pool: pool_ptr,
            packed_page: strides[0],
            packed_head: strides[1],
            packed_chunk: strides[2],
            packed_slot: strides[3],
            pool_page,
            pool_slot,
            pool_head,
            dim: dim as i32,
            tile: tile as i32,
            row_bytes: row_bytes as i32,
            wide: i32::from(
                (dim * size).is_multiple_of(16) && in_sixteens(pool_ptr, 1, &[pool_page, pool_slot, pool_head]),
            ),
            x: FastDiv::new(x as u32),
            chunk_wide: i32::from(x * size == 16 && in_sixteens(packed_ptr, 1, &strides)),
            words: FastDiv::new((dim * size / 16) as u32),
            units: FastDiv::new(dim as u32),
        };
    }
    if smem > 48 * 1024 {
        let kernel = "the conversion of an x-packed cache".to_owned();
        return Err(CudaError::SharedMemory { kernel, need: smem as u32, have: 48 * 1024 });
    }
    let kernel = launch.ordered(stream, Op::XPacked, number)?;
    let empty = slots == 0 || (dim_k == 0 && dim_v == 0);
    let grid = if empty { 0 } else { ctas("heads of pages", (pages * heads) as u64, 1)? };
    // SAFETY: the caller promised the memory of the tensors when it made them, and their extents are checked.
    unsafe { kernel.launch((grid, 2), OP_THREADS, smem as u32, &params) }
}
