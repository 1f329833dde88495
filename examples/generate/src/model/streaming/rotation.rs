//! The pass that rotates kept keys, for attention that does not.

use attn::{
    DeviceBuffer, Dtype, Stream, TensorRef, Variant,
    cuda::{Arg, Grid, Module},
    ops::{self, Append, Array, DeviceArray, KvMut, KvRef, KvTransform, SlotMapping},
};
use attn_cache::StepArrays;

use super::{Streaming, rope};
use crate::{
    Error,
    model::{config::LlamaConfig, math::Math},
};

const TEXT: &str = include_str!("rotation.cu");

/// Reads the keys that the new tokens of a step see, rotates them by their positions in the cache, and writes them to
/// the same slots of a pool of its own, which attention reads instead. One pool serves all layers in turn.
///
/// This is the least that a pass of its own does: values stay where they are. Requests of a step must not share pages,
/// because their positions differ.
#[derive(Debug)]
pub struct KeyRotation {
    streaming: Streaming,
    shape: [usize; 4],
    /// (pages, slots, kv_heads, head_dim), the rotated keys of one layer.
    rotated: DeviceBuffer,
    backend: Backend,
    /// Requests of the step.
    requests: usize,
}

#[derive(Debug)]
enum Backend {
    Cpu {
        rope: KvTransform,
        /// For each slot of the pool: itself or -1, and its position in the cache.
        slots: Vec<i64>,
        positions: Vec<i32>,
    },
    Cuda {
        kernel: Module,
        /// `[head_dim / 2]` angles of a position.
        frequencies: DeviceBuffer,
        /// `[requests][3]` keys, new tokens and first page of each request; `[entries]` pages.
        table: Box<(DeviceArray<i32>, DeviceArray<i32>)>,
        staged: Vec<i32>,
        /// Pages of a request with keys to rotate, at most.
        kept_pages: usize,
    },
}

impl KeyRotation {
    /// The pass over pools of `pages` pages of `page_size` tokens, for steps of up to `requests` requests, whose page
    /// tables have up to `max_pages` entries each.
    ///
    /// # Errors
    ///
    /// Out of memory; neither a kernel nor a compiler.
    pub fn new(
        config: &LlamaConfig,
        streaming: Streaming,
        [pages, page_size]: [usize; 2],
        [requests, max_pages]: [usize; 2],
        math: &dyn Math,
    ) -> Result<Self, Error> {
        let engine = math.engine();
        let [kv_heads, head_dim] = [config.heads.kv, config.heads.head_dim].map(|n| n as usize);
        let shape = [pages, page_size, kv_heads, head_dim];
        let backend = if engine.is_cpu() {
            let rope = Variant::parse(&rope(config)).map_err(attn::Error::from)?;
            let slots = pages * page_size;
            let rope = KvTransform::new(engine, &rope, config.heads)?;
            Backend::Cpu { rope, slots: vec![-1; slots], positions: vec![0; slots] }
        } else {
            let frequency = |i: usize| f64::from(config.rope_theta).powf(-2.0 * i as f64 / head_dim as f64) as f32;
            let frequencies: Vec<f32> = (0..head_dim / 2).map(frequency).collect();
            let table =
                (DeviceArray::zeroed(engine, 3 * requests)?, DeviceArray::zeroed(engine, requests * max_pages)?);
            Backend::Cuda {
                kernel: Module::new(engine, "rotation.cu", TEXT, &["rotate"])?,
                frequencies: engine.upload(&frequencies)?,
                table: Box::new(table),
                staged: Vec::new(),
                kept_pages: 0,
            }
        };
        let rotated = math.buffer(shape.iter().product())?;
        Ok(KeyRotation { streaming, shape, rotated, backend, requests: 0 })
    }

    /// Copies to the device which keys the next launches rotate. Requests past those of the step, up to `padded`, have
    /// none.
    ///
    /// # Errors
    ///
    /// More requests or pages than there is memory for, and failures of the device.
    pub fn upload(&mut self, stream: &Stream, step: &StepArrays<'_>, padded: usize) -> Result<(), Error> {
        self.requests = padded;
        match &mut self.backend {
            Backend::Cpu { slots, positions, .. } => {
                slots.fill(-1);
                for request in 0..step.kv_lens.len() {
                    let [len, new] = lengths(step, request);
                    let row = &step.page_indices[step.page_indptr[request] as usize..];
                    for position in 0..len {
                        if let Some(cached) = cached(&self.streaming, position, len, new) {
                            let page = row[position as usize / step.page_size] as usize;
                            let slot = page * step.page_size + position as usize % step.page_size;
                            (slots[slot], positions[slot]) = (slot as i64, cached);
                        }
                    }
                }
                Ok(())
            }
            Backend::Cuda { table, staged, kept_pages, .. } => {
                let (rows, pages) = &mut **table;
                staged.clear();
                let mut most = 1;
                for request in 0..step.kv_lens.len() {
                    let [len, new] = lengths(step, request);
                    most = new.max(most);
                    staged.extend([len, new, step.page_indptr[request]]);
                }
                // the same in every step of decoding, which graphs rely on
                *kept_pages = self.streaming.kept_pages(step.page_size, most as usize);
                staged.resize(3 * padded, 0);
                rows.write(stream, 0, staged)?;
                Ok(pages.write(stream, 0, step.page_indices)?)
            }
        }
    }

    /// Rotates the keys of a layer's pool. It only launches, so a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// A pool of other elements than f16 on CUDA, and failures of the device.
    pub fn run(&mut self, stream: &Stream, keys: &DeviceBuffer) -> Result<(), Error> {
        let [pages, page_size, kv_heads, head_dim] = self.shape;
        match &self.backend {
            Backend::Cpu { rope, slots, positions } => {
                let (slots, positions) = (Array::host(slots), Some(Array::host(positions)));
                let append = Append::at(SlotMapping::Slots { slots, positions });
                let mut to = KvMut::latent(self.rotated.tensor_mut(&self.shape)?);
                let keys = KvRef::latent(keys.tensor(&[pages * page_size, kv_heads, head_dim])?);
                Ok(ops::append_paged(stream, &keys, &mut to, &append, Some(rope))?)
            }
            Backend::Cuda { kernel, frequencies, table, kept_pages, .. } => {
                if keys.dtype() != Dtype::F16 {
                    let have = format!("keys of {}", keys.dtype());
                    return Err(attn::Error::Elements { have, want: Dtype::F16.to_string() }.into());
                }
                let threads = (page_size * head_dim / 8).min(1024) as u32;
                let grid = Grid { ctas: (self.requests as u32, *kept_pages as u32), threads, smem: 0 };
                let [sinks, window, page_size, kv_heads, head_dim] =
                    [self.streaming.kept.sinks, self.streaming.kept.window, page_size, kv_heads, head_dim]
                        .map(|n| n as i32);
                let (rows, pages) = &**table;
                let args = [
                    Arg::read(&keys.tensor(&self.shape)?),
                    Arg::read_array(&rows.array()),
                    Arg::read_array(&pages.array()),
                    Arg::read(&frequencies.tensor(&[frequencies.elements()])?),
                    Arg::value(&sinks),
                    Arg::value(&window),
                    Arg::value(&page_size),
                    Arg::value(&kv_heads),
                    Arg::value(&head_dim),
                    Arg::write(&self.rotated.tensor_mut(&self.shape)?),
                ];
                // SAFETY: these are the parameters of the kernel, and both pools have this shape.
                Ok(unsafe { kernel.launch(stream, 0, grid, &args) }?)
            }
        }
    }

    /// The rotated keys, for attention.
    ///
    /// # Errors
    ///
    /// None; the descriptor is checked.
    pub fn keys(&self) -> Result<TensorRef<'_>, Error> {
        Ok(self.rotated.tensor(&self.shape)?)
    }
}

/// The keys and the new tokens of a request.
fn lengths(step: &StepArrays<'_>, request: usize) -> [i32; 2] {
    [step.kv_lens[request], step.qo_indptr[request + 1] - step.qo_indptr[request]]
}

/// The position in the cache of a key that a new token sees; `None` for other keys. As `cache_positions` and
/// `streaming` have it.
fn cached(streaming: &Streaming, position: i32, len: i32, new: i32) -> Option<i32> {
    let [sinks, window] = [streaming.kept.sinks, streaming.kept.window].map(|n| n as i32);
    let dropped = (len - sinks - window).max(0);
    let in_window = position > len - new - window;
    if position < sinks { Some(position) } else { in_window.then_some(position - dropped) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_compiles() {
        crate::model::compiles::compiles("rotation.cu", super::TEXT, "rotate");
    }
}
