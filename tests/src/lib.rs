//! Shared parts of the tests: the catalogue, variants that exercise the language, and a host compiler for generated
//! C++.

pub mod catalogue;
pub mod compare;
pub mod compile_time;
pub mod compiler;
pub mod corner_cases;
pub mod device_plan;
pub mod filters;
pub mod golden;
pub mod gpu;
pub mod host;
pub mod indexer;
pub mod kv_format_host;
pub mod kv_format_reference;
pub mod language_stress;
pub mod long_hooks;
pub mod mutant;
pub mod reference;
pub mod row_invariance;
pub mod sampling;
pub mod sanitizers;
pub mod setup;
pub mod simt;
pub mod synthetic;
pub mod tables;
pub mod tolerance;
pub mod verify;
