//! The model of a table.

use std::sync::Arc;

use attn::Engine;

use crate::{
    Error,
    model::{
        config::LlamaConfig,
        math::{CpuMath, CudaMath, CudaMathOptions, Math},
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
        let random_weights = MadeUp { config, tied, seed: 1 };
        let math = math(engine)?;
        let weights = Arc::new(random_weights.load(&*math)?);
        math.stream().synchronize()?;
        Ok(TableModel { name, config, weights, engine: engine.clone() })
    }

    /// The device.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Mathematics with a stream of their own.
    pub(super) fn math(&self) -> Result<Box<dyn Math>, Error> {
        math(&self.engine)
    }

    /// Bytes of keys and values of a token in all layers.
    pub(super) fn cache_bytes(&self) -> f64 {
        2.0 * self.config.cache_of_token() as f64
    }
}

fn math(engine: &Engine) -> Result<Box<dyn Math>, Error> {
    Ok(match engine.is_cpu() {
        true => Box::new(CpuMath::new()?),
        false => Box::new(CudaMath::new(engine, CudaMathOptions::default())?),
    })
}
