//! The KV cache: pools of pages, two for each layer.

use attn::{
    DeviceBuffer, Dtype, Kv, Stream, TensorRef,
    ops::{self, Array, KvMut},
};

use super::{config::LlamaConfig, math::Math};
use crate::Error;

/// Pools of (pages, slots, kv_heads, head_dim). A page has the same number in all layers.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<[DeviceBuffer; 2]>,
    dtype: Dtype,
    shape: [usize; 4],
}

impl KvCache {
    /// (pages, slots, kv_heads, head_dim) of each pool.
    pub fn shape(&self) -> [usize; 4] {
        self.shape
    }

    /// Pools of `pages` pages of `page_size` tokens, all zero: masked keys are read, and have to be finite.
    pub fn new(
        config: &LlamaConfig,
        math: &dyn Math,
        dtype: Dtype,
        pages: usize,
        page_size: usize,
    ) -> Result<Self, Error> {
        let shape = [pages, page_size, config.heads.kv as usize, config.heads.head_dim as usize];
        let elements = shape.iter().product();
        let pool = || math.engine().alloc(dtype, elements);
        let layers = (0..config.layers).map(|_| Ok([pool()?, pool()?])).collect::<Result<_, attn::Error>>()?;
        Ok(KvCache { layers, dtype, shape })
    }

    /// Writes all of it, so that the system gives the memory now.
    pub fn touch(&mut self, stream: &Stream) -> Result<(), Error> {
        self.layers.iter_mut().flatten().try_for_each(|pool| Ok(pool.fill(stream, 0)?))
    }

    /// The pools of a layer, for attention; with other keys at the same slots if they are given.
    pub fn layer<'a>(&'a self, layer: usize, keys: Option<TensorRef<'a>>) -> Result<Kv<'a>, Error> {
        let [k, v] = &self.layers[layer];
        let keys = keys.map_or_else(|| k.tensor(&self.shape), Ok)?;
        Ok(Kv::paged(keys, v.tensor(&self.shape)?))
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The pool of a layer's keys.
    pub fn keys(&self, layer: usize) -> &DeviceBuffer {
        &self.layers[layer][0]
    }

    /// The pools of a layer, to append to.
    pub fn layer_mut(&mut self, layer: usize) -> Result<KvMut<'_>, Error> {
        let [k, v] = &mut self.layers[layer];
        Ok(KvMut::new(k.tensor_mut(&self.shape)?, v.tensor_mut(&self.shape)?))
    }

    /// Copies pages `[from, to]` in all layers, in the order of the stream.
    pub fn copy_pages(&mut self, stream: &Stream, copies: &[[i32; 2]]) -> Result<(), Error> {
        if copies.is_empty() {
            return Ok(());
        }
        for layer in 0..self.layers.len() {
            ops::copy_pages(stream, &mut self.layer_mut(layer)?, &Array::host(copies), None)?;
        }
        Ok(())
    }
}
