//! Expressions and the parameters that they set, through the public interface.

extern crate attn_core as attn;

#[path = "../common/variants.rs"]
mod common;
mod fp8;
mod params;
mod parsing;
mod tree;
