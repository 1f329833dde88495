//! The generator of attn-rs: an attention variant, written in Rust, becomes CUDA C++ text beside itself.
//!
//! An ordinary crate, so that tests can call it. Flow: [`parse`] turns Rust syntax into a small checked
//! representation ([`ir`], with types as far as they can be seen: [`types`]), [`check`] refuses what is legal
//! Rust but wrong as a variant, [`emit`] writes C++ text, [`tiles`] derives masks over whole tiles, [`glue`] writes the Rust that carries it.
//! All errors of an item are collected in a [`report`] and shown at once; the item itself is always kept.
//!
//! No promise of stability: use the macros of `attn-rs`.

pub mod check;
pub mod compose;
pub mod device_fn;
pub mod device_type;
pub mod emit;
pub mod glue;
pub mod ir;
mod kinds;
mod kv_words;
mod literals;
pub mod messages;
pub mod names;
pub mod params;
pub mod parse;
pub mod report;
pub mod tiles;
pub mod types;
pub mod variant;
