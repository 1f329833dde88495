//! The CUDA side of attn-rs: splice a variant into a template, compile, cache, load, launch.
//!
//! Users depend on the facade `attn-rs` (lib name `attn`), which re-exports what they need of this crate.
//!
//! | module | what it does |
//! |---|---|
//! | [`cell`] | which tile sizes a kernel gets |
//! | [`cost`] | what work costs a kernel, as measured |
//! | [`family`] | which kernels a batch runs |
//! | [`splice`] | a variant and a cell become one translation unit |
//! | [`compile`] | a translation unit becomes a cubin: NVRTC or nvcc |
//! | [`cache`] | a cubin is compiled once |
//! | [`aot`] | cubins made by build scripts, embedded |
//! | [`jit`] | a source becomes a cubin by whichever of these has it |
//! | [`launch`] | what the host hands to kernels |
//! | `cuda` | the driver: devices, streams, buffers; attention, plan, run (feature `cuda`) |

pub mod aot;
pub mod cache;
pub mod cell;
pub mod compile;
pub mod cost;
pub mod family;
pub mod jit;
pub mod launch;
pub mod splice;

#[cfg(feature = "cuda")]
pub mod cuda;
