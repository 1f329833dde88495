//! Attention variants written in Rust, run on NVIDIA GPUs and on the CPU.
//!
//! A *variant* of attention has a mask, a bias, a soft cap, a rotary embedding or a normaliser of its own.
//! FlashAttention and FlashInfer select a variant by a flag; here it is a small Rust trait impl. `#[attention_variant]`
//! turns its hooks into CUDA, which is spliced into FlashAttention-style prefill and decode kernels over ragged and
//! paged KV caches, and compiled at run time or ahead of time. The same Rust runs on the CPU, which is the reference:
//! no GPU and no CUDA toolkit are needed to build, test or try a variant.
//!
//! The library computes the forward pass, on devices of compute capability 8.0 to 12.0.
//!
//! ```
//! use attn::prelude::*;
//!
//! /// Logits approach `cap` and never exceed it.
//! #[derive(Clone, Debug, VariantParams)]
//! struct MyCap {
//!     #[require(cap > 0.0)]
//!     cap: f32,
//! }
//!
//! #[attention_variant]
//! impl AttentionVariant for MyCap {
//!     fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
//!         self.cap * (logit / self.cap).tanh()
//!     }
//! }
//!
//! # fn main() -> Result<(), attn::Error> {
//! // `Engine::auto()?` takes the first CUDA device, else the CPU
//! let engine = Engine::cpu();
//! let variant = compose!(attn::stock::Causal, MyCap { cap: 20.0 });
//! let attention = engine.attention(&variant, Heads { qo: 4, kv: 2, head_dim: 8 }, Dtypes::f32())?;
//!
//! // one request of 3 queries over 5 keys
//! let mut workspace = engine.workspace();
//! let plan = attention.plan(&Batch::ragged(&[0, 3], &[0, 5]), &mut workspace)?;
//!
//! let q = engine.upload(&[0.5f32; 3 * 4 * 8])?;
//! let kv = engine.upload(&[0.25f32; 5 * 2 * 8])?;
//! let mut o = engine.alloc(Dtype::F32, 3 * 4 * 8)?;
//! let kv = Kv::ragged(kv.tensor(&[5, 2, 8])?, kv.tensor(&[5, 2, 8])?);
//! plan.run(&engine.stream()?, q.tensor(&[3, 4, 8])?, kv, Out::new(o.tensor_mut(&[3, 4, 8])?))?;
//! assert_eq!(engine.download::<f32>(&o)?[0], 0.25);
//! # Ok(())
//! # }
//! ```
//!
//! Where to start:
//!
//! - [`stock`]: the variants that come with the library, and [`Variant::parse`], which reads expressions of them.
//! - [`lang::AttentionVariant`]: the hooks of a variant. [`lang`] is the language that their bodies are written in.
//! - [`attend`]: attention in one call. [`Engine`], [`Attention`], [`Plan`]: bind a variant, plan a batch once a step,
//!   run it once a layer.
//! - [`Batch`], [`Kv`]: ragged tensors, page tables, block tables and cascades.
//! - [`GraphBuckets`]: decode loops under CUDA graphs. [`ops`]: append, merge, gather and copy around attention.
//! - [`cuda_source`]: the CUDA that a variant becomes. [`aot`]: kernels embedded by a build script.
//!
//! The crate `attn-testing` checks variants: properties of one variant, cases against a reference in f64, snapshots of
//! its CUDA. The [book](https://github.com/attn-rs/attn-rs/tree/main/book/src/SUMMARY.md) has the guide, the reference
//! of the language and the measured performance.
//!
//! Features: `cuda` (the CUDA backend; builds without CUDA installed), `jit` (NVRTC in process) and `inventory`
//! (variants register themselves) are on by default; `models` reads the attention of known models from their
//! `config.json`, and `cudarc` views cudarc's memory as tensors.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "cuda"), allow(dead_code, unused_imports, unused_variables))] // what CUDA alone uses

// `#[attention_variant]` emits `::attn::..`, which inside this crate is this crate.
#[allow(unused_extern_crates)] // only where variants are defined in here
extern crate self as attn;

pub mod aot;
mod attention;
mod backend;
mod check;
mod cuda_source;
mod engine;
mod error;
pub mod graph;
pub mod indexer;
mod memory;
#[cfg(feature = "cuda")]
mod module;
mod one_shot;
pub mod ops;
pub mod parallel;
mod plan;
#[cfg(feature = "cuda")]
mod prebuilt;
pub mod prelude;
mod prepare;
pub mod sampling;
mod stream;
mod workspace;

#[cfg(feature = "cudarc")]
pub mod cudarc;
#[cfg(feature = "models")]
pub mod models;

pub use attention::Attention;
pub use check::BatchChecker;
pub use cuda_source::{VariantCuda, cuda_source};
pub use engine::Engine;
pub use error::Error;
pub use graph::{Graph, GraphBuckets};
pub use memory::DeviceBuffer;
pub use one_shot::attend;
pub use plan::{Plan, PlanOptions, RunOptions};
#[cfg(feature = "cuda")]
pub use prebuilt::register_embedded;
pub use prepare::{Preparation, PrepareOptions, Workload};
pub use stream::Stream;
pub use workspace::Workspace;

pub use attn_core::batch::{Batch, BatchCapacity, BlockTable, CascadeLevel, CascadeLevelKv, PageTable};
/// ```
/// use attn::{Variant, compose, stock};
///
/// let variant: Variant = compose!(stock::Causal, stock::SoftCap { cap: 30.0 });
/// assert_eq!(variant, Variant::parse("causal + soft_cap(cap=30)")?);
/// # Ok::<(), attn::ExprError>(())
/// ```
///
/// Two parts that change the normaliser do not compile.
pub use attn_core::compose;
pub use attn_core::dtype::{Dtype, Dtypes};
pub use attn_core::lang::{F8E4M3, F8E5M2};
pub use attn_core::spec::{
    AttentionOptions, ComputeType, DecodeBackend, HeadDimVo, Heads, KernelKind, KvStored, PrefillBackend,
};
pub use attn_core::tensor::{Element, Kv, KvScales, KvSides, Out, PageOrder, Scale, TensorError, TensorMut, TensorRef};
pub use attn_core::{
    ErrorKind, ExprError, Registry, RegistryError, Variant, VariantParams, VariantSpec, attention_variant, bits,
    device_fn, device_type, kv_format, kv_formats, random, registry, state, variants,
};
pub use attn_kernels::cost::{CostTable, CostsError};
pub use half::{bf16, f16};

/// The variant language: the traits and types that a variant and a KV format are written with.
pub mod lang {
    pub use attn_core::lang::kv_format::{KvFormatDesc, LinearCodes, RowBytes};
    pub use attn_core::lang::param_tensor::ParamElement;
    pub use attn_core::lang::params::ParamField;
    pub use attn_core::lang::{
        AttentionVariant, BindError, Bits, ComposeError, Dims, EncodeRow, F8E4M3, F8E5M2, Hook, KvFormat, KvFormats,
        KvIndex, LogitIndex, Normalizer, OutTensor, OutTensor1, OutTensor2, OutTensor3, OutTensor4, Packed, PackedMut,
        ParamError, ParamValue, ParamValues, QueryTile, Row, RowIndex, RowState, Tensor, Tensor0, Tensor1, Tensor2,
        Tensor3, Tensor4, Tile, TileClass, VariantDesc, VariantParams, approx, bits, math, random, space,
    };
}

/// Layouts of batches, and page tables in memory of their own.
pub mod batch {
    pub use attn_core::batch::{
        BatchError, DeviceBatch, DevicePages, I32Slice, KvLayout, Layout, PageTableBuf, Pages, indptr, words,
    };
}

/// Expressions: the content of tensors that a text leaves out, and how many layers share what is visible.
pub mod expr {
    pub use attn_core::expr::{
        ContentError, LayerError, MissingTensor, TensorContent, TensorSlot, Visibility, VisibilityInterner,
    };
}

/// What CUDA alone has: devices, events, the driver, the kernels of plans, kernels of the caller, and errors.
#[cfg(feature = "cuda")]
pub mod cuda {
    pub use crate::module::Module;
    pub use attn_kernels::cuda::{Arg, CudaError, Device, Event, Grid, Kernel, driver};
}

/// Whether an attention runs, asked without a device.
pub use attn_kernels::support::{Spec, Target, Unsupported, supports};

/// What [`Engine::prepare`] reports.
pub use attn_kernels::jit::{PrepareReport, Progress};

/// The stock variants.
pub use attn_variants as stock;

// All of these can be moved to other threads and shared. Planning takes a [`Workspace`] by `&mut`.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Engine, Attention, Plan, Workspace, Stream, DeviceBuffer, Graph, GraphBuckets, Preparation)>();
    shared::<(Variant, Registry, Error, TensorRef<'static>, TensorMut<'static>, Kv<'static>)>();
};

/// Paths that the macros emit. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use attn_core::__private::*;
}

/// Registers the kernels that this crate's build script embedded through [`aot::build_script`]. Call it once, before
/// the first plan.
#[macro_export]
macro_rules! include_prebuilt {
    () => {{
        static PREBUILT: &[$crate::aot::Prebuilt] = include!(concat!(env!("OUT_DIR"), "/attn_aot.rs"));
        $crate::aot::register(PREBUILT);
    }};
}
