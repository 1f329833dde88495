//! A pass of its own that rotates stored keys before attention, which is what systems do whose attention kernels do not
//! rotate: what those kernels are compared with.

use attn::{
    DeviceBuffer, Stream, TensorRef, Variant,
    ops::{self, Append, DeviceArray, KvMut, KvRef, KvTransform, SlotMapping},
};
use attn_cache::StepArrays;

use super::{config::LlamaConfig, math::Math};
use crate::Error;

/// Rotates all keys of a step by their places in the page tables, into the same slots of a pool of its own, which
/// attention reads instead. One pool serves all layers in turn. Requests of a step must not share pages, because their
/// places differ.
#[derive(Debug)]
pub(super) struct KeyRotation {
    rope: KvTransform,
    shape: [usize; 4],
    /// The rotated keys of one layer.
    rotated: DeviceBuffer,
    /// For each slot of the pool: itself or -1, and its place in the page table.
    slots: DeviceArray<i64>,
    positions: DeviceArray<i32>,
    /// The page tables of the last step: their ends, and their pages.
    tables: [Vec<i32>; 2],
}

impl KeyRotation {
    /// The pass over pools of `shape`, (pages, slots, kv_heads, head_dim).
    pub(super) fn new(config: &LlamaConfig, shape: [usize; 4], math: &dyn Math) -> Result<Self, Error> {
        let (engine, slots) = (math.engine(), shape[0] * shape[1]);
        let rope = Variant::parse(&config.rope()).map_err(attn::Error::from)?;
        let rope = KvTransform::new(engine, &rope, config.heads)?;
        rope.prepare(math.dtype(), math.dtype())?;
        Ok(KeyRotation {
            rope,
            shape,
            rotated: math.buffer(shape.iter().product())?,
            slots: DeviceArray::upload(engine, &vec![-1; slots])?,
            positions: DeviceArray::zeroed(engine, slots)?,
            tables: Default::default(),
        })
    }

    /// Copies the places of keys to the device, where pages have come or gone since the last step.
    pub(super) fn upload(&mut self, stream: &Stream, step: &StepArrays<'_>) -> Result<(), Error> {
        if self.tables == [step.page_indptr, step.page_indices] {
            return Ok(());
        }
        self.tables = [step.page_indptr.to_vec(), step.page_indices.to_vec()];
        let (mut slots, mut positions) = (vec![-1; self.slots.len()], vec![0; self.slots.len()]);
        for ends in step.page_indptr.windows(2) {
            let pages = &step.page_indices[ends[0] as usize..ends[1] as usize];
            let keys =
                pages.iter().flat_map(|&page| (0..step.page_size).map(move |i| page as usize * step.page_size + i));
            for (position, slot) in keys.enumerate() {
                (slots[slot], positions[slot]) = (slot as i64, position as i32);
            }
        }
        self.slots.write(stream, 0, &slots)?;
        Ok(self.positions.write(stream, 0, &positions)?)
    }

    /// Rotates the keys of a layer's pool. It only launches, so a CUDA graph can capture it.
    pub(super) fn run(&mut self, stream: &Stream, keys: &DeviceBuffer) -> Result<TensorRef<'_>, Error> {
        let [pages, page_size, kv_heads, head_dim] = self.shape;
        let positions = Some(self.positions.array());
        let append = Append::at(SlotMapping::Slots { slots: self.slots.array(), positions });
        let keys = KvRef::latent(keys.tensor(&[pages * page_size, kv_heads, head_dim])?);
        let mut to = KvMut::latent(self.rotated.tensor_mut(&self.shape)?);
        ops::append_paged(stream, &keys, &mut to, &append, Some(&self.rope))?;
        Ok(self.rotated.tensor(&self.shape)?)
    }
}
