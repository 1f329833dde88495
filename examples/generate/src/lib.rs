//! A small inference engine over attn-rs: a real model, paged attention, continuous batching, a server.
//!
//! - [`model`]: what runs a step: tokens in, sampled tokens out. SmolLM2 from a GGUF file, on the CPU and on CUDA.
//! - [`tokenizer`]: text to tokens and back.
//! - [`engine`]: requests, the scheduler, prefix reuse, speculation.
//! - [`serve`]: OpenAI's completions over HTTP.
//!
//! ```text
//! serve ──▶ engine ──▶ model ──▶ attn, attn-cache
//! ```
//!
//! `benches/generate` measures it.

pub mod engine;
mod error;
pub mod model;
mod model_args;
pub mod sampling;
pub mod serve;
pub mod tokenizer;

pub use error::Error;
pub use model_args::{ModelArgs, Started};
