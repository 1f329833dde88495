#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

// `#[attention_variant]` emits `::attn::..`: inside this crate, that is this crate.
#[allow(unused_extern_crates)] // used where variants are defined in here
extern crate self as attn;

mod attention;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod cascades;
mod check;
mod engine;
mod error;
pub mod graph;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod made_up;
mod memory;
pub mod ops;
#[cfg(test)]
mod per_request;
mod plan;
#[cfg(feature = "cuda")]
mod prebuilt;
pub mod prelude;
#[cfg(test)]
mod replaced_tensors;
#[cfg(test)]
mod scaled_cache;
mod stream;
#[cfg(test)]
mod transformed_keys;
#[cfg(test)]
mod unfinished;
#[cfg(test)]
mod updated_plans;
mod workspace;

#[cfg(feature = "cudarc")]
pub mod cudarc;
#[cfg(feature = "models")]
pub mod models;
#[cfg(feature = "testing")]
pub mod testing;

pub use attention::{Attention, AttentionOptions};
pub use check::BatchChecker;
pub use engine::Engine;
pub use error::Error;
pub use graph::{Graph, GraphBuckets};
pub use memory::DeviceBuffer;
pub use plan::Plan;
#[cfg(feature = "cuda")]
pub use prebuilt::register_embedded;
pub use stream::Stream;
pub use workspace::Workspace;

/// ```
/// use attn::{Variant, compose, stock};
///
/// let variant: Variant = compose!(stock::Causal, stock::SoftCap { cap: 30.0 });
/// assert_eq!(variant, Variant::parse("causal + soft_cap(cap=30)")?);
/// # Ok::<(), attn::ExprError>(())
/// ```
///
/// Two parts that change the normaliser do not compile:
///
/// ```compile_fail
/// attn::compose!(attn::stock::Sigmoid { bias: 0.0 }, attn::stock::Sigmoid { bias: 1.0 });
/// ```
pub use attn_core::compose;
pub use attn_core::{
    ExprError, Registry, RegistryError, Variant, VariantParams, VariantSpec, attention_variant, batch, cpu, device_fn,
    device_type, dtype, expr, lang, plan as planner, random, registry, spec, state, tensor, variants,
};
pub use batch::{Batch, BatchCapacity, BlockTable, Level, LevelKv, PageTable};
pub use dtype::{Dtype, Dtypes};
pub use half::{bf16, f16};
pub use lang::{F8E4M3, F8E5M2};
pub use spec::{Heads, KernelKind, KvStored, PrefillTemplate, ValueRows};
pub use tensor::{Kv, KvScales, Out, PageOrder, Scale, TensorMut, TensorRef};

/// The CUDA backend as it is underneath: devices, streams, events, graphs, and attention on raw pointers.
#[cfg(feature = "cuda")]
pub use attn_kernels::cuda;

/// Kernels: their source, their compilation, the cache.
pub use attn_kernels as kernels;

/// Kernels embedded ahead of time. See [`aot::Aot`] and [`include_prebuilt!`].
pub use attn_kernels::aot;

/// The stock variants.
pub use attn_variants as stock;

// All of them may be moved to, and shared between, threads; a [`Workspace`] is planned into by one at a time (`&mut`).
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Engine, Attention, Plan, Workspace, Stream, DeviceBuffer, Graph, GraphBuckets)>();
    shared::<BatchChecker>();
    shared::<(Variant, Registry, Error, TensorRef<'static>, TensorMut<'static>, Kv<'static>)>();
};

/// The reference of the language: hooks, parameters, the subset of Rust, precision, composition, tiles, key lists.
#[cfg(all(any(doc, doctest), feature = "models", feature = "testing"))]
#[doc = include_str!("../docs/language.md")]
pub mod language {}

/// What the macros emit by path. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use attn_core::__private::*;
}

/// Registers the kernels that this crate's build script embedded through [`aot::Aot`]. To be called once, before the first
/// plan.
///
/// ```ignore
/// // build.rs:  attn::aot::Aot::new(my_variants::variants()).expressions(["causal + mine"]).build_script();
/// attn::include_prebuilt!();
/// ```
#[macro_export]
macro_rules! include_prebuilt {
    () => {{
        static PREBUILT: &[$crate::aot::Prebuilt] = include!(concat!(env!("OUT_DIR"), "/attn_aot.rs"));
        $crate::aot::register(PREBUILT);
    }};
}
