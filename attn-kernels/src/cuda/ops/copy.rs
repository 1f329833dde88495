//! Copies of pages: within a pool, between pools, to pinned host memory and back.

use attn_core::ops::{Array, ArrayMut, KvMut, KvRef, copy};
use attn_core::tensor::TensorRef;

use super::launch::OpLaunch;
use super::{Op, stride};
use crate::cuda::driver::order::sides;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::cuda::{CudaError, CudaStream};
use crate::launch::{COPY_INLINE, CopyParams, CopyPart, FastDiv, OP_THREADS};

/// How many CTAs a copy may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// As many as fit: for device memory.
    #[default]
    Device,
    /// As many as saturate the bus to the host, so that other kernels can run concurrently.
    Host,
}

/// Widths of words, in the order of the kernels.
const WIDTHS: [u64; 4] = [16, 4, 2, 1];
/// Words that a CTA copies in one step: `COPY_ROUNDS` of cuda/ops/copy.cuh times its threads.
const TILE: u64 = 4 * OP_THREADS as u64;
/// CTAs that saturate the bus to the host: each has 16 KB in flight.
const HOST_CTAS: u64 = 32;

/// Launches the kernel of [`attn_core::ops::copy::within`], which defines the result, except that pairs are copied in
/// no particular order. A list in host memory is passed as a kernel parameter. `status` is a word in device memory, to
/// which the kernel adds the number of pairs that it skipped because a page is outside of its pool.
///
/// # Errors
///
/// What does not fit, tensors in memory of the host, no kernel.
pub fn copy_pages(
    stream: &CudaStream,
    pools: &KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
) -> Result<(), CudaError> {
    copy::check_within(pools, pairs)?;
    planes(stream, &pools.as_ref(), &pools.as_ref(), pairs, status, Speed::Device)
}

/// Launches the kernel of [`attn_core::ops::copy::between`], which defines the result, except that pairs are copied in
/// no particular order. One of the pools may be pinned host memory.
///
/// # Errors
///
/// The errors of [`copy_pages`].
pub fn copy_pages_between(
    stream: &CudaStream,
    from: &KvRef<'_>,
    to: &KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
    speed: Speed,
) -> Result<(), CudaError> {
    copy::check_between(from, to, pairs)?;
    planes(stream, from, &to.as_ref(), pairs, status, speed)
}

/// Copies rows, and then their side data.
fn planes(
    stream: &CudaStream,
    from: &KvRef<'_>,
    to: &KvRef<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
    speed: Speed,
) -> Result<(), CudaError> {
    run(stream, from, to, pairs, status, speed)?;
    // the first launch has counted what is skipped
    let sides = from.side_planes().zip(to.side_planes());
    sides.map_or(Ok(()), |(from, to)| run(stream, &from, &to, pairs, None, speed))
}

fn run(
    stream: &CudaStream,
    from: &KvRef<'_>,
    to: &KvRef<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
    speed: Speed,
) -> Result<(), CudaError> {
    copy::check_status(status)?;
    let mut launch = OpLaunch::default();
    let mut params = CopyParams { status: launch.write_if("status", status)?, ..CopyParams::default() };
    if pairs.as_host().is_none() {
        params.pairs = launch.read("pairs", pairs)?;
    }
    launch.uses(Read, sides(&from.sides()));
    launch.uses(Write, sides(&to.sides()));
    let mut runs = Vec::new();
    for (names, (from, to)) in [["from.k", "to.k"], ["from.v", "to.v"]].into_iter().zip(from.parts().zip(to.parts())) {
        (params.from_pages, params.to_pages) = (from.shape()[0] as i64, to.shape()[0] as i64);
        let ptrs = [launch.tensor(Read, names[0], &from)?, launch.tensor(Write, names[1], &to)?];
        runs.push(PageRuns::of(ptrs, &from, &to));
    }
    // one word width for keys and values, which usually have the same layout
    let number = runs.iter().filter(|runs| runs.bytes > 0).map(PageRuns::width).max().unwrap_or(0);
    let mut most = 0;
    for (part, runs) in params.part.iter_mut().zip(&runs) {
        *part = runs.part(WIDTHS[number]);
        most = most.max(part.tiles.divisor);
    }
    let kernel = launch.ordered(stream, Op::Copy, number)?;
    // with a status the kernel checks the pairs even if pages are empty
    let idle = params.status == 0 && runs.iter().all(|runs| runs.bytes == 0);
    let start = |count: usize, list: &[u8]| {
        let params = CopyParams { count: count as i64, ..params };
        let tiles = count as u64 * u64::from(most);
        let ctas = tiles.min(if speed == Speed::Host { HOST_CTAS } else { 1 << 20 });
        let grid = (if idle { 0 } else { ctas as u32 }, runs.len() as u32);
        // SAFETY: the caller promised the memory of the tensors and arrays when it made them; the kernel checks the
        // pages.
        unsafe { kernel.launch_with(grid, OP_THREADS, 0, &params, list) }
    };
    let mut list = vec![[0i32; 2]; COPY_INLINE];
    match pairs.as_host() {
        None => start(pairs.len(), bytemuck::cast_slice(&list)),
        Some(pairs) => pairs.chunks(COPY_INLINE).try_for_each(|some| {
            list[..some.len()].copy_from_slice(some);
            start(some.len(), bytemuck::cast_slice(&list))
        }),
    }
}

/// A page of both pools as `outer * inner` contiguous runs of bytes.
struct PageRuns {
    from: u64,
    to: u64,
    pages: [i64; 2],
    outer: RunDim,
    inner: RunDim,
    /// Bytes of a run.
    bytes: u64,
}

/// A dimension of runs: its extent and its stride in either pool.
#[derive(Clone, Copy)]
struct RunDim {
    count: u64,
    from: i64,
    to: i64,
}

impl PageRuns {
    /// `ptrs`: of both tensors.
    fn of(ptrs: [u64; 2], from: &TensorRef<'_>, to: &TensorRef<'_>) -> Self {
        let size = from.dtype().size() as i64;
        let dim = |dim: usize| RunDim {
            count: from.shape()[dim] as u64,
            from: stride(from.shape(), from.strides(), dim) * size,
            to: stride(to.shape(), to.strides(), dim) * size,
        };
        let (mut outer, mut inner) = (dim(1), dim(2));
        if outer.to < inner.to || outer.count == 1 {
            (outer, inner) = (inner, outer); // the inner dimension is the one with the smaller stride in the target
        }
        let mut bytes = from.shape()[3] as u64 * size as u64;
        for _ in 0..2 {
            // runs that are adjacent in both pools become one
            let beside = inner.from == bytes as i64 && inner.to == bytes as i64;
            if beside || inner.count == 1 {
                bytes *= inner.count;
                (inner, outer) = (outer, RunDim { count: 1, from: 0, to: 0 });
            }
        }
        let pages = [from, to].map(|pool| stride(pool.shape(), pool.strides(), 0) * size);
        PageRuns { from: ptrs[0], to: ptrs[1], pages, outer, inner, bytes }
    }

    /// The index of the widest word that divides all addresses, strides and sizes.
    fn width(&self) -> usize {
        let PageRuns { from, to, pages, outer, inner, bytes } = self;
        let strides = [pages[0], pages[1], outer.from, outer.to, inner.from, inner.to].map(i64::unsigned_abs);
        let all = || strides.iter().chain([from, to, bytes]);
        WIDTHS.iter().position(|&width| all().all(|value| value.is_multiple_of(width))).unwrap_or(WIDTHS.len() - 1)
    }

    fn part(&self, width: u64) -> CopyPart {
        let run = self.bytes / width;
        let words = run * self.inner.count * self.outer.count;
        CopyPart {
            from: self.from,
            to: self.to,
            from_page: self.pages[0],
            to_page: self.pages[1],
            from_outer: self.outer.from,
            to_outer: self.outer.to,
            from_inner: self.inner.from,
            to_inner: self.inner.to,
            inner: FastDiv::new(self.inner.count as u32),
            run: FastDiv::new(run as u32),
            words: words as u32,
            tiles: FastDiv::new(words.div_ceil(TILE) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtype;

    use super::*;

    fn tensor(shape: &[usize], strides: &[i64]) -> TensorRef<'static> {
        // SAFETY: it is never read.
        unsafe { TensorRef::device(0x1000, Dtype::Bf16, shape, strides) }.expect("a shape")
    }

    #[test]
    fn adjacent_runs_are_joined() {
        let (shape, nhd, hnd) = ([9, 4, 3, 8], [96, 24, 8, 1], [96, 8, 32, 1]);
        let runs = |from: &[i64], to: &[i64]| {
            let runs = PageRuns::of([0x1000; 2], &tensor(&shape, from), &tensor(&shape, to));
            (runs.outer.count, runs.inner.count, runs.bytes, WIDTHS[runs.width()])
        };
        assert_eq!(runs(&nhd, &nhd), (1, 1, 192, 16));
        assert_eq!(runs(&hnd, &hnd), (1, 1, 192, 16));
        assert_eq!(runs(&nhd, &hnd), (3, 4, 16, 16));
        // heads of a larger pool
        assert_eq!(runs(&[192, 48, 8, 1], &nhd), (1, 4, 48, 16));
        assert_eq!(runs(&[97, 24, 8, 1], &nhd), (1, 1, 192, 2));
    }

    #[test]
    fn dimensions_of_extent_one_are_dropped() {
        let runs = |shape: &[usize], strides: &[i64]| {
            let tensor = tensor(shape, strides);
            let runs = PageRuns::of([0x1000; 2], &tensor, &tensor);
            (runs.outer.count, runs.inner.count, runs.bytes)
        };
        assert_eq!(runs(&[5, 1, 3, 8], &[48, 7, 16, 1]), (1, 3, 16));
        assert_eq!(runs(&[5, 4, 1, 8], &[48, 12, 7, 1]), (1, 4, 16));
        assert_eq!(runs(&[5, 1, 1, 8], &[8, 7, 7, 1]), (1, 1, 16));
    }
}
