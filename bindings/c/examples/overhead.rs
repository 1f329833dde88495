//! The Rust side of `benches/overhead.c`: a library with the C interface, and a function that times the same runs from
//! Rust. `cargo xtask gpu-bundle --c` links both into one program.

use std::{ffi::c_void, time::Instant};

use attn::{Dtype, Kv, Out, Plan, PlanOptions, Stream, TensorMut, TensorRef, Workspace, prelude::*};
pub use attn_c::*;

/// A plan of a decode step, and addresses to run it on.
#[derive(Debug)]
pub struct Timed {
    plan: Plan,
    stream: Stream,
    tensors: [u64; 4],
    _workspace: Workspace,
}

impl Timed {
    unsafe fn new(stream: *mut c_void, tensors: [u64; 4]) -> Result<Self, attn::Error> {
        let engine = Engine::cuda(0)?;
        // SAFETY: the caller's stream.
        let stream = unsafe { Stream::from_raw(&engine, stream) }?;
        let pages: Vec<i32> = (0..64).rev().collect();
        let table = PageTable { indptr: &[0, 64], indices: &pages, last_page_len: &[16], page_size: 16, num_pages: 64 };
        let heads = Heads { qo: 32, kv: 8, head_dim: 128 };
        let attention = engine.attention(&Variant::parse("causal")?, heads, Dtypes::bf16())?;
        let capacity = Some(BatchCapacity::decode(1, 1024).in_pages(16, 64));
        let (mut workspace, options) = (engine.workspace(), PlanOptions { capacity, ..PlanOptions::default() });
        let plan = attention.plan_with(&Batch::paged(&[0, 1], &table), &mut workspace, options)?;
        Ok(Timed { plan, stream, tensors, _workspace: workspace })
    }

    /// As the C call does, from addresses.
    fn run(&self) -> Result<(), attn::Error> {
        let [q, k, v, o] = self.tensors;
        let (rows, of_rows) = ([1, 32, 128], [32 * 128, 128, 1]);
        let (pool, of_pool) = ([64, 16, 8, 128], [16 * 8 * 128, 8 * 128, 128, 1]);
        // SAFETY: the caller's tensors, which have these shapes and outlive what is launched.
        unsafe {
            let kv = |at| TensorRef::device(at, Dtype::Bf16, &pool, &of_pool);
            let out = Out::new(TensorMut::device(o, Dtype::Bf16, &rows, &of_rows)?);
            let q = TensorRef::device(q, Dtype::Bf16, &rows, &of_rows)?;
            self.plan.run(&self.stream, q, Kv::paged(kv(k)?, kv(v)?), out)
        }
    }
}

/// Plans the step of `benches/overhead.c`; null if that fails.
///
/// # Safety
///
/// The stream and the tensors (queries, keys, values, outputs) are those of the program, and outlive the plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timed_new(stream: *mut c_void, tensors: *const u64) -> *mut Timed {
    // SAFETY: the caller guarantees it.
    let timed = unsafe { Timed::new(stream, *tensors.cast::<[u64; 4]>()) };
    timed.map_or(std::ptr::null_mut(), |timed| Box::into_raw(Box::new(timed)))
}

/// Runs `count` times, and writes the nanoseconds that each call took; false if one failed.
///
/// # Safety
///
/// `timed` is from [`timed_new`], and there is room for `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timed_runs(timed: *const Timed, count: usize, nanoseconds: *mut u64) -> bool {
    // SAFETY: the caller guarantees it.
    let (timed, nanoseconds) = unsafe { (&*timed, std::slice::from_raw_parts_mut(nanoseconds, count)) };
    nanoseconds.iter_mut().all(|took| {
        let start = Instant::now();
        let done = timed.run();
        *took = start.elapsed().as_nanos() as u64;
        done.is_ok()
    })
}

/// Frees the plan.
///
/// # Safety
///
/// It is from [`timed_new`], and is freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timed_free(timed: *mut Timed) {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Box::from_raw(timed) });
}
