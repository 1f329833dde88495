//! The ops that a serving engine needs around attention: merging states; appending, copying, gathering, swapping and
//! converting KV pages; packing masks into bits.
//!
//! Each op is a function of a [`Stream`](crate::Stream) and descriptors of memory, on the CPU and on CUDA. On CUDA it
//! is one launch that allocates nothing and waits for nothing. It can be captured in a graph, and each replay reads
//! slots, pages and positions from device memory again. The first call compiles and loads its kernel, which a capture
//! refuses; [`prepare`] does so before. Tensors may have any strides; rows that are aligned to 16 bytes are moved in
//! 16-byte accesses.
//!
//! Arguments that the host can see are checked before anything is launched. Arrays on a device cannot be read: a kernel
//! skips entries that lie outside of the pool or the page table, writes nothing for them, and counts them in `status`,
//! if given. On the CPU they are errors.
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
//! // three new tokens: the first two go to page 5, the last is padding; the append rotates keys
//! let (k, v) = (engine.upload(&[0.5f32; 3 * 2 * 8])?, engine.upload(&[1.5f32; 3 * 2 * 8])?);
//! let rows = ops::KvRef::new(k.tensor(&[3, 2, 8])?, v.tensor(&[3, 2, 8])?);
//! let slots = ops::DeviceArray::upload(&engine, &[5 * 4, 5 * 4 + 1, -1i64])?;
//! let positions = ops::DeviceArray::upload(&engine, &[0, 1, 0i32])?;
//! let slot_mapping = ops::SlotMapping::Slots { slots: slots.array(), positions: Some(positions.array()) };
//! let rope = ops::KvTransform::new(&engine, &Variant::parse("rope")?, heads)?;
//! let mut cache = ops::KvMut::fused(pool.tensor_mut(&shape)?, PageOrder::Nhd)?;
//! ops::append_paged(&stream, &rows, &mut cache, &ops::Append::at(slot_mapping), Some(&rope))?;
//!
//! // beam search: a beam continues in a copy of its page
//! ops::copy_pages(&stream, &mut cache, &ops::Array::host(&[[5, 2]]), None)?;
//!
//! // gather both tokens as f32
//! let (mut k, mut v) = (engine.alloc(Dtype::F32, 2 * 2 * 8)?, engine.alloc(Dtype::F32, 2 * 2 * 8)?);
//! let mut packed = ops::KvMut::new(k.tensor_mut(&[2, 2, 8])?, v.tensor_mut(&[2, 2, 8])?);
//! let (ends, pages) = (ops::DeviceArray::upload(&engine, &[0, 2])?, ops::DeviceArray::upload(&engine, &[2])?);
//! let rows = ops::PageTableRows::Padded { pages: pages.array(), max_pages: 1 };
//! ops::gather(&stream, &cache.as_ref(), &mut packed, &ops::Gather::new(ends.array(), rows))?;
//! assert_eq!(engine.download::<f32>(&v)?, [1.5; 32]);
//! assert_eq!(engine.download::<f32>(&k)?[..16], [0.5; 16]); // position 0 is not rotated
//! # Ok::<(), attn::Error>(())
//! ```
//!
//! Partial outputs over disjoint keys are merged by their log-sum-exps. FlashInfer's are in base 2
//! ([`lse_from_base_2`]):
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
//! let a = ops::StateRef { o: a.0.tensor(&[1, 1, 8])?, lse: a.1.tensor(&[1, 1])? };
//! let b = ops::StateRef { o: b.0.tensor(&[1, 1, 8])?, lse: b.1.tensor(&[1, 1])? };
//! ops::merge_state(&stream, &a, &b, out)?;
//! assert_eq!((engine.download::<f32>(&o)?, engine.download::<f32>(&lse)?), (vec![1.0; 8], vec![0.0]));
//! # Ok::<(), attn::Error>(())
//! ```

mod append;
mod bits;
mod buffers;
mod gather;
mod host;
mod merge;
mod pages;

pub use attn_core::ops::bits::{pack, pack_segments};
pub use attn_core::ops::lse::{from_base_2, to_base_2};
pub use attn_core::ops::{
    Append, Array, ArrayMut, BitOrder, Gather, KvMut, KvRef, KvSidesMut, Number, OpError, PageTableRows, SlotMapping,
    StateMut, StateRef, TensorRows, slots_of_new_keys,
};
pub use attn_kernels::splice::Op;

pub use append::{KvTransform, append_paged};
pub use bits::{packbits, segment_packbits};
pub use buffers::{DeviceArray, HostBuffer};
pub use gather::{gather, gather_with};
pub use host::{HostArray, Staging};
pub use merge::{lse_from_base_2, lse_to_base_2, merge_state, merge_state_in_place, merge_states, merge_sums};
pub use pages::{copy_pages, copy_pages_between, pages_to_x_packed, swap_in, swap_out, x_packed_to_pages};

use crate::{Engine, Error, backend::on_backend};

/// Prepares ops, so that the first call can be captured: on CUDA it compiles and loads their kernels.
/// [`KvTransform::prepare`] prepares appends through a transform.
///
/// # Errors
///
/// Neither a kernel nor a compiler.
pub fn prepare(engine: &Engine, ops: &[Op]) -> Result<(), Error> {
    on_backend!(&engine.backend, {
        Cpu(()) => Ok(()),
        Cuda(device) => Ok(attn_kernels::cuda::ops::prepare(device, ops)?),
    })
}
