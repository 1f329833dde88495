//! What an engine needs around attention: states merged, keys and values appended, copied, gathered, swapped and converted, masks packed.
//!
//! Each op is a function of a [`Stream`](crate::Stream) and descriptors of memory, on the CPU and on CUDA alike. On CUDA it is one launch, that allocates nothing and waits for
//! nothing: it may be captured in a graph, and what it reads from memory of the device (slots, pages, positions) is read by each replay anew. Its kernel is compiled
//! and loaded by the first call, which a capture refuses, or before by [`prepare`]. Tensors may have any strides; where rows are aligned to 16 bytes, memory is
//! moved in such.
//!
//! What can be seen from the host is checked, and refused with an error, before anything is launched. Entries of arrays on a device cannot be seen: a kernel
//! leaves out those that are outside of the pool or the page table, writes nothing for them, and counts them where a `status` is given. On the CPU they are errors.
//!
//! ```
//! use attn::{Dtype, Engine, Heads, PageOrder, Variant, ops};
//!
//! let engine = Engine::cpu(); // or `Engine::auto()?`
//! let stream = engine.stream()?;
//! let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
//!
//! // a pool of 6 pages of 4 slots, keys and values of a page beside each other
//! let mut pool = engine.alloc(Dtype::E4m3, 6 * 2 * 4 * 2 * 8)?;
//! let shape = [6, 2, 4, 2, 8];
//!
//! // three new tokens: the first two go to page 5, the last is padding; keys are rotated on their way in
//! let (k, v) = (engine.upload(&[0.5f32; 3 * 2 * 8])?, engine.upload(&[1.5f32; 3 * 2 * 8])?);
//! let rows = ops::KvRef::new(k.tensor(&[3, 2, 8])?, v.tensor(&[3, 2, 8])?);
//! let slots = ops::Numbers::upload(&engine, &[5 * 4, 5 * 4 + 1, -1i64])?;
//! let positions = ops::Numbers::upload(&engine, &[0, 1, 0i32])?;
//! let places = ops::Places::Slots { slots: slots.array(), positions: Some(positions.array()) };
//! let rope = ops::KvTransform::new(&engine, &Variant::parse("rope")?, heads)?;
//! let mut cache = ops::KvMut::fused(pool.tensor_mut(&shape)?, PageOrder::Nhd)?;
//! ops::append_paged(&stream, &rows, &mut cache, &ops::Append::at(places), Some(&rope))?;
//!
//! // a beam writes on in a copy of its page
//! ops::copy_pages(&stream, &mut cache, &ops::Array::host(&[[5, 2]]), None)?;
//!
//! // and both tokens come back as f32
//! let (mut k, mut v) = (engine.alloc(Dtype::F32, 2 * 2 * 8)?, engine.alloc(Dtype::F32, 2 * 2 * 8)?);
//! let mut packed = ops::KvMut::new(k.tensor_mut(&[2, 2, 8])?, v.tensor_mut(&[2, 2, 8])?);
//! let (ends, pages) = (ops::Numbers::upload(&engine, &[0, 2])?, ops::Numbers::upload(&engine, &[2])?);
//! let rows = ops::PageRows::Padded { pages: pages.array(), max_pages: 1 };
//! ops::gather(&stream, &cache.as_ref(), &mut packed, &ops::Gather::new(ends.array(), rows))?;
//! assert_eq!(engine.download::<f32>(&v)?, [1.5; 32]);
//! assert_eq!(engine.download::<f32>(&k)?[..16], [0.5; 16]); // position 0 is not turned
//! # Ok::<(), attn::Error>(())
//! ```
//!
//! Outputs over disjoint keys are merged by their log-sum-exps; those of FlashInfer come in base 2 ([`lse_from_base_2`]):
//!
//! ```
//! use attn::{Dtype, Engine, Out, ops};
//!
//! let engine = Engine::cpu();
//! let stream = engine.stream()?;
//! let state = |x: f32, lse: f32| Ok::<_, attn::Error>((engine.upload(&[x; 8])?, engine.upload(&[lse])?));
//! let (a, b) = (state(1.0, 0.0)?, state(f32::NAN, f32::NEG_INFINITY)?); // b has no keys
//! let (mut o, mut lse) = (engine.alloc(Dtype::F32, 8)?, engine.alloc(Dtype::F32, 1)?);
//! let out = Out::with_lse(o.tensor_mut(&[1, 1, 8])?, lse.tensor_mut(&[1, 1])?);
//! let a = ops::State { o: a.0.tensor(&[1, 1, 8])?, lse: a.1.tensor(&[1, 1])? };
//! let b = ops::State { o: b.0.tensor(&[1, 1, 8])?, lse: b.1.tensor(&[1, 1])? };
//! ops::merge_state(&stream, &a, &b, out)?;
//! assert_eq!((engine.download::<f32>(&o)?, engine.download::<f32>(&lse)?), (vec![1.0; 8], vec![0.0]));
//! # Ok::<(), attn::Error>(())
//! ```

mod append;
mod bits;
mod buffers;
#[cfg(all(test, feature = "cuda"))]
mod gpu_tests;
mod merge;
mod pages;
#[cfg(test)]
mod tests;

pub use attn_core::ops::{
    Append, Array, ArrayMut, BitOrder, Gather, KvMut, KvRef, Number, OpError, PageRows, Places, State, StateMut,
    bits::{pack, pack_segments},
    lse::{from_base_2, to_base_2},
    slots_of_new_keys,
};
pub use attn_kernels::splice::Op;

pub use append::{KvTransform, append_paged, gather};
pub use bits::{packbits, segment_packbits};
pub use buffers::{HostBuffer, Numbers};
pub use merge::{lse_from_base_2, lse_to_base_2, merge_state, merge_state_in_place, merge_states, merge_sums};
pub use pages::{copy_pages, copy_pages_between, pages_to_x_packed, swap_in, swap_out, x_packed_to_pages};

use crate::{Engine, Error, engine::Backend};

/// Makes ops ready, so that the first call may be captured: on CUDA kernels are compiled and loaded. Those of an append through a transform are
/// made ready by [`KvTransform::prepare`].
///
/// # Errors
///
/// No kernel and no compiler.
pub fn prepare(engine: &Engine, ops: &[Op]) -> Result<(), Error> {
    match &engine.backend {
        Backend::Cpu => {
            let _ = ops;
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Backend::Cuda(device) => Ok(attn_kernels::cuda::ops::prepare(device, ops)?),
    }
}

/// Runs an op where its stream is.
macro_rules! on_stream {
    ($stream:expr, cpu: $cpu:expr, cuda: |$cuda_stream:ident| $cuda:expr) => {{
        #[cfg(feature = "cuda")]
        if let Some($cuda_stream) = $stream.as_cuda() {
            return Ok($cuda?);
        }
        let _ = $stream;
        Ok($cpu?)
    }};
}
use on_stream;
