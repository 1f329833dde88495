//! Llama over a paged cache: an attention layer for models of one's own, and a model of such layers.
//!
//! The attention does the rotary embedding, as a part of the variant: queries are rotated in the kernel, and keys when
//! they are appended ([`KvStored::Transformed`](crate::KvStored::Transformed)), so that no layer has tables of cosines.
//! Requests of any lengths, prompts beside ones that decode, are the rows of one tensor of (tokens, hidden).
//!
//! ```
//! use attn_candle::{AttentionOptions, Dtypes, Engine, Heads, KvStored, llama::{PagedAttention, PagedKv, Step}};
//! use attn_cache::{Pages, Sequence, StepCapacity};
//! use candle_core::{DType, Device, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::Cpu;
//! let engine = Engine::new(&device)?;
//! let heads = Heads { qo: 4, kv: 2, head_dim: 16 };
//! let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
//! let attention = engine.attention_with("causal + rope(theta=100000)", heads, Dtypes::f32(), options)?;
//! let cache = PagedKv::new(&attention, 1, 8, 16)?; // one layer, 8 pages of 16 tokens
//!
//! // attn-cache, or any page manager, says which page holds what
//! let pages = Pages::new(8, 16)?;
//! let mut sequences = [Sequence::new(&pages)];
//! sequences[0].append(5)?;
//! let capacity = StepCapacity { sequences: 4, tokens: 64, pages: 8, pages_per_sequence: 8, levels: 1 };
//! let mut tables = attn_cache::Step::new(&pages, capacity)?;
//! tables.build(&sequences[..])?;
//! let arrays = tables.arrays();
//! let step = Step::new(&attention, &arrays.batch(), arrays.slots, arrays.positions)?;
//!
//! let weight = |rows, columns| Tensor::randn(0f32, 0.1, (rows, columns), &device);
//! let layer = PagedAttention::new(weight(64, 64)?, weight(32, 64)?, weight(32, 64)?, weight(64, 64)?);
//! let x = Tensor::zeros((5, 64), DType::F32, &device)?;
//! assert_eq!(layer.forward(&x, &step, &cache, 0)?.dims(), [5, 64]);
//! # Ok(())
//! # }
//! ```

use attn::{Batch, BatchCapacity};
use candle_core::{D, DType, Result, Tensor};

use crate::{Attention, Kv, Plan, PlanOptions, tensors::candle_dtype};

/// The pools of all layers, (layers, pages, slots, KV heads, head dim) of keys and of values: a page has the same
/// number in all layers.
#[derive(Clone, Debug)]
pub struct PagedKv {
    k: Tensor,
    v: Tensor,
}

impl PagedKv {
    /// Pools of zeros, in the element type of the attention.
    ///
    /// # Errors
    ///
    /// Out of memory; an element type that candle has not.
    pub fn new(attention: &Attention, layers: usize, pages: usize, page_size: usize) -> Result<Self> {
        let (heads, dtype) = (attention.heads(), candle_dtype(attention.dtypes().kv)?);
        // masked keys are read, and have to be finite
        let pool = |dim| {
            let shape = (layers, pages, page_size, heads.kv as usize, dim);
            Tensor::zeros(shape, dtype, attention.engine().device())
        };
        Ok(PagedKv { k: pool(heads.head_dim as usize)?, v: pool(attention.value_dim)? })
    }

    /// The pools of a layer, which share the memory of this.
    ///
    /// # Errors
    ///
    /// A layer that is not there.
    pub fn layer(&self, layer: usize) -> Result<[Tensor; 2]> {
        Ok([self.k.get(layer)?, self.v.get(layer)?])
    }
}

/// A step of all layers: its plan, and the places of its new tokens.
#[derive(Debug)]
pub struct Step {
    plan: Plan,
    slots: Tensor,
    positions: Tensor,
}

impl Step {
    /// Plans a step: the keys of `batch` are those of earlier steps and the new ones, whose slots (`page * page_size +
    /// slot`) and positions are given, one of each for each query.
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::plan`].
    pub fn new(attention: &Attention, batch: &Batch<'_>, slots: &[i64], positions: &[i32]) -> Result<Self> {
        Self::of_plan(attention.plan(batch)?, slots, positions)
    }

    /// A step with memory for every step up to a capacity ([`Step::update`]).
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::plan_within`].
    pub fn within(
        attention: &Attention,
        capacity: BatchCapacity,
        batch: &Batch<'_>,
        slots: &[i64],
        positions: &[i32],
    ) -> Result<Self> {
        let options = PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
        Self::of_plan(attention.plan_with(batch, options)?, slots, positions)
    }

    fn of_plan(plan: Plan, slots: &[i64], positions: &[i32]) -> Result<Self> {
        let device = plan.attention().engine().device();
        let slots = Tensor::from_slice(slots, slots.len(), device)?;
        let positions = Tensor::from_slice(positions, positions.len(), device)?;
        Ok(Step { plan, slots, positions })
    }

    /// The next step, in the same memory of the plan.
    ///
    /// # Errors
    ///
    /// The errors of [`Plan::update`].
    pub fn update(&mut self, batch: &Batch<'_>, slots: &[i64], positions: &[i32]) -> Result<()> {
        self.plan.update(batch)?;
        let device = self.plan.attention().engine().device();
        self.slots = Tensor::from_slice(slots, slots.len(), device)?;
        self.positions = Tensor::from_slice(positions, positions.len(), device)?;
        Ok(())
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The attention layer of Llama: projections around attention over a paged cache.
#[derive(Clone, Debug)]
pub struct PagedAttention {
    q_proj: Tensor,
    k_proj: Tensor,
    v_proj: Tensor,
    o_proj: Tensor,
}

impl PagedAttention {
    /// A layer of weights of (outputs, inputs), as checkpoints have them: `q_proj`, `k_proj`, `v_proj` and `o_proj`.
    #[must_use]
    pub fn new(q_proj: Tensor, k_proj: Tensor, v_proj: Tensor, o_proj: Tensor) -> Self {
        PagedAttention { q_proj, k_proj, v_proj, o_proj }
    }

    /// `x` of (tokens, hidden) through the layer, whose new keys and values go to the pools of `layer`.
    ///
    /// # Errors
    ///
    /// Weights that do not fit the heads of the step's attention; as [`Plan::run`] and [`Attention::append`].
    pub fn forward(&self, x: &Tensor, step: &Step, cache: &PagedKv, layer: usize) -> Result<Tensor> {
        let attention = step.plan.attention();
        let (tokens, _) = x.dims2()?;
        let heads = attention.heads();
        let rows = |weight: &Tensor, heads: u32| linear(x, weight)?.reshape((tokens, heads as usize, ()));
        let (q, k, v) = (rows(&self.q_proj, heads.qo)?, rows(&self.k_proj, heads.kv)?, rows(&self.v_proj, heads.kv)?);
        let [k_pool, v_pool] = &cache.layer(layer)?;
        let pools = Kv::paged(k_pool, v_pool);
        attention.append(&Kv::ragged(&k, &v), &pools, &step.slots, Some(&step.positions))?;
        let o = step.plan.run(&q, &pools)?;
        linear(&o.reshape((tokens, ()))?, &self.o_proj)
    }
}

/// A Llama: layers of [`PagedAttention`] and SwiGLU, with root mean square norms.
#[derive(Debug)]
pub struct Llama {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    norm_eps: f64,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor,
    attention: PagedAttention,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Llama {
    /// A model of `layers` layers. `weight` gives the tensor of a name of Hugging Face's checkpoints, such as
    /// `model.layers.0.self_attn.q_proj.weight`; for embeddings that are also the head, the same for `lm_head.weight`.
    ///
    /// # Errors
    ///
    /// Those of `weight`.
    pub fn load(layers: usize, norm_eps: f64, mut weight: impl FnMut(&str) -> Result<Tensor>) -> Result<Self> {
        let mut layer = |index: usize| {
            let mut get = |name: &str| weight(&format!("model.layers.{index}.{name}.weight"));
            let [q, k, v, o] = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| get(&format!("self_attn.{name}")));
            Ok(Layer {
                attention_norm: get("input_layernorm")?.to_dtype(DType::F32)?,
                attention: PagedAttention::new(q?, k?, v?, o?),
                mlp_norm: get("post_attention_layernorm")?.to_dtype(DType::F32)?,
                gate: get("mlp.gate_proj")?,
                up: get("mlp.up_proj")?,
                down: get("mlp.down_proj")?,
            })
        };
        let layers = (0..layers).map(&mut layer).collect::<Result<_>>()?;
        let embedding = weight("model.embed_tokens.weight")?;
        let norm = weight("model.norm.weight")?.to_dtype(DType::F32)?;
        Ok(Llama { embedding, layers, norm, head: weight("lm_head.weight")?, norm_eps })
    }

    /// The logits of (rows, vocabulary) for tokens of u32, those of all requests of the step one after the other;
    /// `rows` are the tokens whose logits are wanted.
    ///
    /// # Errors
    ///
    /// The errors of [`PagedAttention::forward`].
    pub fn forward(&self, tokens: &Tensor, step: &Step, cache: &PagedKv, rows: &Tensor) -> Result<Tensor> {
        let mut x = self.embedding.index_select(tokens, 0)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.normed(&x, &layer.attention_norm)?;
            x = (x + layer.attention.forward(&normed, step, cache, index)?)?;
            let normed = self.normed(&x, &layer.mlp_norm)?;
            let gated = (linear(&normed, &layer.gate)?.silu()? * linear(&normed, &layer.up)?)?;
            x = (x + linear(&gated, &layer.down)?)?;
        }
        linear(&self.normed(&x.index_select(rows, 0)?, &self.norm)?, &self.head)
    }

    /// The root mean square norm, in f32, as the weight is: it is rounded once.
    fn normed(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let wide = x.to_dtype(DType::F32)?;
        let mean = (wide.sqr()?.mean_keepdim(D::Minus1)? + self.norm_eps)?;
        wide.broadcast_div(&mean.sqrt()?)?.broadcast_mul(weight)?.to_dtype(x.dtype())
    }
}

/// `x` of (tokens, inputs) times a weight of (outputs, inputs).
fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.matmul(&weight.t()?)
}
