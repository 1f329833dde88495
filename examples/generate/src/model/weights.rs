//! The weights of a Llama on a device.

use attn::DeviceBuffer;

use super::{
    config::LlamaConfig,
    math::{Math, Matrix},
};
use crate::Error;

/// Where weights come from: a file, or a generator of made-up ones.
pub trait Checkpoint {
    /// A tensor in f32, rows of outputs, by its name in GGUF files (`blk.0.attn_q.weight`).
    ///
    /// # Errors
    ///
    /// No tensor of the name, or one of another shape.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error>;

    /// Whether the checkpoint has a tensor.
    fn has(&self, name: &str) -> bool;

    /// Refuses tensors that were not asked for: a model without them says something else.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] names one.
    fn check_unused(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The weights of one block. Matrices with the same input are one, so that each is one launch.
#[derive(Debug)]
pub struct LayerWeights {
    /// Norm before attention.
    pub attn_norm: DeviceBuffer,
    /// Queries, keys, values.
    pub qkv: Matrix,
    /// Attended values to the residual.
    pub output: Matrix,
    /// Norm before the feed-forward network.
    pub ffn_norm: DeviceBuffer,
    /// Gate, up.
    pub gate_up: Matrix,
    /// Back to the residual.
    pub down: Matrix,
}

/// All weights.
#[derive(Debug)]
pub struct LlamaWeights {
    /// Tokens to rows.
    pub embedding: Matrix,
    /// The blocks.
    pub layers: Vec<LayerWeights>,
    /// Norm before the head.
    pub norm: DeviceBuffer,
    /// Rows to logits; `None` where the embedding is used (a tied head).
    pub head: Option<Matrix>,
}

impl LlamaWeights {
    /// Uploads the weights of a checkpoint, layer by layer.
    ///
    /// # Errors
    ///
    /// A missing or misshapen tensor, or one that is not known; out of memory.
    pub fn load(config: &LlamaConfig, from: &dyn Checkpoint, math: &dyn Math) -> Result<Self, Error> {
        let (width, head) = (config.width, "output.weight");
        let vocab = [config.vocab, width];
        let weights = LlamaWeights {
            embedding: math.matrix(&from.tensor("token_embd.weight", &vocab)?, width)?,
            layers: (0..config.layers).map(|i| LayerWeights::load(config, i, from, math)).collect::<Result<_, _>>()?,
            norm: math.weights(&from.tensor("output_norm.weight", &[width])?)?,
            head: if from.has(head) { Some(math.matrix(&from.tensor(head, &vocab)?, width)?) } else { None },
        };
        from.check_unused()?;
        Ok(weights)
    }

    /// A matrix of each shape that products have.
    pub fn matrices(&self) -> Vec<&Matrix> {
        let of_layers = self.layers.first().into_iter();
        let of_layers = of_layers.flat_map(|layer| [&layer.qkv, &layer.output, &layer.gate_up, &layer.down]);
        of_layers.chain([self.head()]).collect()
    }

    /// The matrix that makes logits.
    pub fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

impl LayerWeights {
    fn load(config: &LlamaConfig, layer: usize, from: &dyn Checkpoint, math: &dyn Math) -> Result<Self, Error> {
        let tensor = |name: &str, shape: &[usize]| from.tensor(&format!("blk.{layer}.{name}.weight"), shape);
        let (width, ffn, q, kv) = (config.width, config.ffn, config.q_width(), config.kv_width());
        let qkv = [tensor("attn_q", &[q, width])?, tensor("attn_k", &[kv, width])?, tensor("attn_v", &[kv, width])?];
        let gate_up = [tensor("ffn_gate", &[ffn, width])?, tensor("ffn_up", &[ffn, width])?];
        Ok(LayerWeights {
            attn_norm: math.weights(&tensor("attn_norm", &[width])?)?,
            qkv: math.matrix(&qkv.concat(), width)?,
            output: math.matrix(&tensor("attn_output", &[width, q])?, q)?,
            ffn_norm: math.weights(&tensor("ffn_norm", &[width])?)?,
            gate_up: math.matrix(&gate_up.concat(), width)?,
            down: math.matrix(&tensor("ffn_down", &[width, ffn])?, ffn)?,
        })
    }
}
