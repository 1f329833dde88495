//! New keys and values, into pools of pages.

use std::mem::offset_of;

use attn::ops::{Append, KvMut, KvRef, SlotMapping, append_paged};

use crate::attention::AttnAttention;
use crate::input::{Versioned, check_reserved, handle, member, versioned};
use crate::memory::numbers;
use crate::status::{AttnStatus, Failure, call};
use crate::stream::AttnStream;
use crate::tensor::{AttnKvLayout, AttnTensor, LAYOUTS, scales, sides_to_write};

/// New keys and values, and where they go. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnAppend {
    /// `sizeof(AttnAppend)`.
    pub size: usize,
    /// New keys: (tokens, KV heads, head dim).
    pub k: AttnTensor,
    /// New values: (tokens, KV heads, value dim); zero where values are in keys.
    pub v: AttnTensor,
    /// The pool of keys, as `kv_layout` says.
    pub k_pool: AttnTensor,
    /// The pool of values; zero for a fused pool, and where values are in keys.
    pub v_pool: AttnTensor,
    /// `tokens` entries in memory of the device: slots `page * page_size + slot`. Nothing is written for one below 0.
    pub slots: *const i64,
    /// `tokens` entries in memory of the device: positions of the tokens in their requests, for a variant that rotates
    /// keys by them; null if none does.
    pub positions: *const i32,
    /// Entries of both.
    pub tokens: usize,
    /// What readers multiply stored keys by; 0 for 1.
    pub k_scale: f32,
    /// What readers multiply stored values by; 0 for 1.
    pub v_scale: f32,
    /// An `AttnKvLayout`.
    pub kv_layout: u32,
    /// 0.
    pub reserved: u32,
    /// The pool of the side data of keys, as that of a run (`AttnRun.k_side`).
    pub k_side: AttnTensor,
    /// The pool of the side data of values.
    pub v_side: AttnTensor,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnAppend {
    const NAME: &'static str = "AttnAppend";
    const FIRST_SIZE: usize = offset_of!(AttnAppend, k_side);
}

impl AttnAppend {
    unsafe fn run(&self, stream: &AttnStream, attention: Option<&AttnAttention>) -> Result<(), Failure> {
        let (layout, memory) = (member(self.kv_layout, &LAYOUTS, "AttnAppend.kv_layout")?, &stream.memory);
        check_reserved(self.reserved, "AttnAppend.reserved")?;
        layout.check_left_out(&self.v_pool, "v_pool")?;
        if layout == AttnKvLayout::Latent {
            layout.check_left_out(&self.v, "v")?;
        }
        // SAFETY: the caller's tensors and arrays.
        unsafe {
            let k = self.k.read(memory, "k")?;
            let new = match layout {
                AttnKvLayout::Latent => KvRef::latent(k),
                _ => KvRef::new(k, self.v.read(memory, "v")?),
            };
            let k_pool = self.k_pool.write(memory, "k_pool")?;
            let pools = match (layout, layout.page_order()) {
                (AttnKvLayout::Latent, _) => KvMut::latent(k_pool),
                (AttnKvLayout::FusedNhd | AttnKvLayout::FusedHnd, order) => KvMut::fused(k_pool, order)?,
                (_, order) => KvMut::paged_in(k_pool, self.v_pool.write(memory, "v_pool")?, order)?,
            };
            let mut pools = pools.with_sides(sides_to_write(&self.k_side, &self.v_side, layout, memory)?);
            let slots = numbers(self.slots, self.tokens, memory, "AttnAppend.slots")?;
            let positions = match self.positions.is_null() {
                true => None,
                false => Some(numbers(self.positions, self.tokens, memory, "AttnAppend.positions")?),
            };
            let scales = scales(self.k_scale, self.v_scale);
            let append = Append { scales, ..Append::at(SlotMapping::Slots { slots, positions }) };
            let transform = attention.and_then(|attention| attention.transform.as_ref());
            Ok(append_paged(&stream.stream, &new, &mut pools, &append, transform)?)
        }
    }
}

/// Appends new keys and values to pools of pages, in the order of the stream. `attention` may be null; if its spec says
/// `stores_transformed`, its variant's key and value transforms are applied, and rows are encoded in its `kv_format`. A
/// transform that reads a table by the token of a key reads the entry of its row among the new ones. Pools share no
/// memory with each other or with what is appended; they may be parts of one pool, such as its halves. On a CUDA device
/// it launches and returns, as a run does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_append(
    stream: *const AttnStream,
    attention: *const AttnAttention,
    append: *const AttnAppend,
) -> AttnStatus {
    // SAFETY: the caller's pointers.
    call(|| unsafe {
        let attention = if attention.is_null() { None } else { Some(handle(attention, "attention")?) };
        versioned(append)?.run(handle(stream, "stream")?, attention)
    })
}
