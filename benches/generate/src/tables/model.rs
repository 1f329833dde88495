//! The model of a table.

use std::sync::Arc;

use attn::Engine;

use generate::{
    Error,
    model::{
        config::LlamaConfig,
        llama::math,
        math::{CudaMathOptions, Math},
        random_weights::MadeUp,
        weights::LlamaWeights,
    },
};

/// A shape with made-up weights on a device, which all sides of all tables share.
#[derive(Clone, Debug)]
pub struct TableModel {
    /// Its name in the tables.
    pub name: &'static str,
    /// The shape.
    pub config: LlamaConfig,
    /// The weights.
    pub(super) weights: Arc<LlamaWeights>,
    engine: Engine,
}

impl TableModel {
    /// Makes up the weights of a shape. `tied` says whether the head is the embedding.
    ///
    /// # Errors
    ///
    /// Out of memory; neither kernels nor a compiler.
    pub fn new(engine: &Engine, name: &'static str, config: LlamaConfig, tied: bool) -> Result<Self, Error> {
        let math = math(engine, CudaMathOptions::default())?;
        let weights = Arc::new(LlamaWeights::load(&config, &MadeUp { config, tied, seed: 1 }, &*math)?);
        math.stream().synchronize()?;
        Ok(TableModel { name, config, weights, engine: engine.clone() })
    }

    /// The device.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Mathematics with a stream of their own.
    pub(super) fn math(&self) -> Result<Box<dyn Math>, Error> {
        math(&self.engine, CudaMathOptions::default())
    }

    /// Bytes of keys and values of a token in all layers.
    pub(super) fn cache_bytes(&self) -> f64 {
        2.0 * self.config.cache_of_token() as f64
    }
}
