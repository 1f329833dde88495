//! Compiling kernels: which compile, within which budgets, what a failure says, and what the machine code holds.

extern crate attn_core as attn;

mod code_key;
mod compile_errors;
mod compile_matrix;
mod compiler_version;
mod nvcc;
mod obtain_all;
mod output_types;
mod prefill_sm90;
#[path = "../support/stock.rs"]
mod stock;
mod stored_kv_kernels;
mod unused_hooks_sass;
