//! The CUDA backend of attn-rs: it splices a variant into a kernel template, compiles and caches the cubin, and
//! launches it.
//!
//! Users depend on the facade `attn-rs` (library name `attn`), which re-exports what they need.
//!
//! | module | what it does |
//! |---|---|
//! | [`kernel_traits`] | tile sizes and other compile-time constants of a kernel |
//! | [`cost`] | measured costs of kernels |
//! | [`plan_rules`] | how the planner cuts a batch for a kernel |
//! | [`select`] | kernel selection: which kernel runs a batch |
//! | [`support`] | what runs where, without a device |
//! | [`splice`] | variant and traits become one translation unit |
//! | [`compile`] | a translation unit becomes a cubin, by NVRTC or nvcc |
//! | [`cache`] | the cache of cubins |
//! | [`aot`] | cubins that build scripts compile and embed |
//! | [`jit`] | the cubin of a source: embedded, cached, or compiled now |
//! | [`launch`] | kernel parameters |
//! | `cuda` | devices, streams, buffers; attention, plan, run (feature `cuda`) |

// the derive of CUDA structs emits paths that start with `::attn`
extern crate attn_core as attn;

pub mod aot;
pub mod cache;
pub mod compile;
pub mod cost;
pub mod jit;
pub mod kernel_traits;
pub mod launch;
pub mod plan_rules;
mod prebuilt;
#[cfg_attr(not(feature = "cuda"), allow(dead_code))] // what plans on a device read
mod problem;
pub mod select;
mod sha256;
#[cfg(any(feature = "cuda", feature = "jit"))]
mod shared_library;
pub mod splice;
pub mod support;
mod switch;

#[cfg(feature = "cuda")]
pub mod cuda;
