//! A small inference engine over attn-rs: a real model, paged attention, continuous batching, a server.
//!
//! - [`model`]: what runs a step: tokens in, sampled tokens out. SmolLM2 from a GGUF file, on the CPU and on CUDA.
//! - [`tokenizer`]: text to tokens and back.
//! - [`engine`]: requests, the scheduler, prefix reuse, speculation.
//! - [`serve`]: OpenAI's completions over HTTP. [`mod@bench`]: traces, latencies, throughput.
//! - [`tables`]: the tables of FlashInfer's paper on a model.
//!
//! ```text
//! serve, bench ──▶ engine ──▶ model ──▶ attn, attn-cache
//! ```

pub mod bench;
pub mod engine;
mod error;
pub mod model;
pub mod sampling;
pub mod serve;
pub mod tables;
pub mod tokenizer;

pub use error::Error;
