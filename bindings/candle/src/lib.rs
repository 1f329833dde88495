//! Attention of [attn-rs](attn) on tensors of [candle](candle_core).
//!
//! Any variant, by an expression or as a Rust value, over dense, ragged and paged keys, on the CPU and, with the
//! feature `cuda`, on NVIDIA GPUs. Nothing is copied: runs read and write the memory of candle's tensors, in any
//! strides, in the order of candle's stream.
//!
//! ```
//! use attn_candle::{Batch, Dtypes, Engine, Heads, Kv};
//! use candle_core::{DType, Device, Result, Tensor};
//!
//! # fn main() -> Result<()> {
//! let device = Device::Cpu; // or `Device::new_cuda(0)?`
//! let engine = Engine::new(&device)?;
//! let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
//! let attention = engine.attention("causal + soft_cap(cap=30)", heads, Dtypes::f32())?;
//!
//! // two requests of 3 and 1 queries, over 3 and 7 keys
//! let (q, k) = (Tensor::rand(0f32, 1., (4, 4, 8), &device)?, Tensor::rand(0f32, 1., (10, 2, 8), &device)?);
//! let o = attention.varlen(&q, &k, &k, &[0, 3, 4], &[0, 3, 10])?;
//! assert_eq!((o.dims(), o.dtype()), (&[4, 4, 8][..], DType::F32));
//!
//! // the same as a plan, which all layers of a step run
//! let plan = attention.plan(&Batch::ragged(&[0, 3, 4], &[0, 3, 10]))?;
//! let again = plan.run(&q, &Kv::ragged(&k, &k))?;
//! assert_eq!(o.flatten_all()?.to_vec1::<f32>()?, again.flatten_all()?.to_vec1::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Engine`]: a candle device. [`Attention`]: a variant, heads and element types on it.
//! - [`Plan`]: a batch, planned once a step and run once a layer; updated in place ([`Plan::update`]), also from
//!   lengths and pages in tensors on the device ([`Plan::update_on_device`]), and in levels.
//! - [`Kv`]: keys and values, dense, ragged or in pools of pages; [`Attention::append`] writes new ones to pages.
//! - [`llama`]: an attention layer of Llama over a paged cache, and a model of such layers.
//!
//! Errors are [`candle_core::Error`] with the text of [`attn::Error`]: what was asked, what is possible, the way out.
//! Nothing is launched then. There is no backward pass: candle's `backward` through an output or its log-sum-exps says
//! so. What is written in place ([`Plan::run_into`], [`Attention::append`]) records nothing.
//!
//! **Features**: `cuda` turns on the CUDA backends of candle and of attn-rs. candle needs nvcc to build; attn-rs does
//! not. A variant that is a Rust `impl` needs `attn-rs` as a dependency of its own, because macros emit `::attn` paths.

/// The Rust blocks of the book's chapter, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/guide/candle.md")]
mod book {}

mod append;
mod attention;
mod device_level;
mod engine;
mod error;
mod in_place;
mod kv;
pub mod llama;
mod one_shot;
mod plan;
mod run;
mod tensors;

pub use attention::{Attention, IntoVariant};
pub use device_level::{DeviceLevel, DeviceTable};
pub use engine::Engine;
pub use kv::Kv;
pub use one_shot::{attend, attend_varlen};
pub use plan::{Output, Plan, PlanOptions, RunOptions};

/// The library below: variants, batches, ops and errors.
pub use attn;
pub use attn::{
    AttentionOptions, Batch, BatchCapacity, BlockTable, ComputeType, Dtype, Dtypes, HeadDimVo, Heads, KernelKind,
    KvStored, PageOrder, PageTable, Variant,
};

// A server shares all of them between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Engine, Attention, Plan)>();
};
