//! The code generator of attn-rs: turns an attention variant written in Rust into CUDA C++ text.
//!
//! An ordinary crate, so that tests can call it. [`parse`] lowers Rust syntax to a small intermediate representation
//! ([`ir`]) and infers types ([`types`]). [`check`] refuses what is legal Rust but wrong as a variant. [`emit`] writes
//! C++ text. [`abstract_interp`] derives tile classes from masks. What is found of
//! an item is a model ([`VariantModel`](variant::VariantModel)): the macro prints it as Rust (`descriptor`), and
//! attn-text makes a descriptor of it.
//! All errors of an item are collected in a [`report`] and shown at once; the item itself is always kept.
//!
//! No promise of stability: use the macros of `attn-rs`.

pub mod abstract_interp;
mod attribute;
pub mod budget;
pub mod check;
pub mod compose;
mod compose_part;
mod coordinates;
pub mod cuda_struct;
pub mod depth;
mod descriptor;
pub mod device_fn;
pub mod device_mod;
pub mod device_type;
pub mod emit;
mod exact;
mod expand;
mod helper_module;
pub mod hook;
mod identity;
pub mod impl_item;
pub mod ir;
pub mod kv_format;
mod literals;
mod loop_attributes;
pub mod messages;
pub mod methods;
pub mod module_scope;
pub mod names;
mod notes;
pub mod params;
pub mod parse;
pub mod report;
pub mod spaces;
pub mod type_check;
pub mod types;
pub mod variant;
mod visits;
