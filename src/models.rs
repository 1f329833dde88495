//! The attention of known models, layer by layer, read from the `config.json` that Hugging Face's transformers keep
//! beside the weights.
//!
//! ```
//! let config = r#"{
//!     "model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
//!     "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0
//! }"#;
//! let model = attn::models::from_config(config)?;
//! let rope = "rope(theta=10000, scale=1, interleaved=false, rotary_dim=0)";
//! let want = format!("causal + sliding_window(window=4096) + {rope} + soft_cap(cap=50)");
//! assert_eq!(model.layers[0].variant.to_string(), want);
//! assert_eq!(model.layers[0].sm_scale, Some(1.0 / 16.0));
//! # Ok::<(), attn::models::ModelError>(())
//! ```
//!
//! Queries and keys are the outputs of the projections. Later steps (norms, rotary embedding, temperature) are part of
//! the variant, so the cache holds raw keys. Tensors of a layer are set by name when its weights are loaded: `logits`
//! of `sink` (gpt-oss), `q_weight` and `k_weight` of `qk_norm` (Qwen3, Gemma 3).
//!
//! Files are read as the classes of transformers (5.17) read them. A field that is left out has the default of the
//! model's class. One that is `null` is not left out: it is the class's `None`, as no window or no cap, and refused
//! where the class takes none. `is_causal: false` gives layers that attend to both sides.
//!
//! A field that changes attention, and that the family of the model does not have, is refused by name unless its value
//! changes nothing; so is everything that is not understood of a scaled rotary embedding, and a `rope_scaling` that
//! differs from the `rope_parameters` beside it.

mod config;
mod error;
mod gemma2;
mod gemma3;
mod gpt_oss;
mod llama;
mod llama4;
mod mistral;
mod model;
mod qwen3;
mod read;
mod rope;
mod text;
mod understood;

pub use error::ModelError;
pub use model::{Layer, Model};
pub use read::{from_config, from_value, known};
