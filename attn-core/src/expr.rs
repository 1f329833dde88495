//! Variants by name, at run time: `causal + sliding_window(window=4096) + soft_cap(cap=50)`.
//!
//! ```text
//! expr  = item ("+" item)*
//! item  = "(" expr ")"
//!       | "or"       "(" expr "," expr ("," expr)* [","] ")"                  keys that one of the masks attends to
//!       | "not"      "(" expr [","] ")"                                       keys that the mask does not attend to
//!       | "remap"    "(" part "," expr [","] ")"                              expr at the positions that the part makes
//!       | "per_head" "(" "heads" "=" value ("," expr)+ [","] ")"              a branch for each query head
//!       | "union"    "(" expr "," expr ("," expr)* [","] ")"                  disjoint sets of keys, one softmax
//!       | part
//! part  = name [ "(" [ arg ("," arg)* [","] ] ")" ]
//! arg   = name "=" value
//! value = number | "true" | "false" | "[" [ value ("," value)* [","] ] "]"
//! ```
//!
//! A name is letters, digits and `_`, not a digit first. A number is written as in Rust, without suffix: `30`, `-0.5`,
//! `1e4`, `10_000`, and `inf`, `-inf`, `nan`. White space is free, and so is where `heads` stands.
//!
//! `+` composes: masks AND, rows and logits transform in order, sinks add up as exponentials, and at most one part changes the
//! normaliser. `full` is the identity. Brackets group, and change nothing: `+` is associative.
//!
//! - `or(a, b)` and `not(a)` take masks alone. That a key exists (`kv_pos < kv_len`) is not part of a mask: `not` attends to
//!   existing keys.
//! - `remap(map, a)`: the hooks of `a` see `qo_pos` and `kv_pos` as `map` rewrites them (`remap_qo_pos`, `remap_kv_pos`).
//! - `per_head(heads=[0, 0, 1], a, b)`: query heads 0 and 1 have every hook of `a`, head 2 those of `b`.
//! - `union(a, b)`: the keys of `a`, and those of `b` that are not keys of `a`; the transforms of an arm are for its keys.
//!   What stands outside is for both.
//!
//! What goes together is in [`lang::compose`](crate::lang::compose).
//!
//! `token` cuts the text, `parse` reads it, `variant` is what comes out, a list of `node`s, `spec` its serde form; `hooks` runs it on the
//! CPU, `class` says what is known of tiles, `arms` takes unions apart, `structure` compares variants whose parameters differ.

mod arms;
mod class;
mod closely;
mod content;
mod error;
mod hooks;
mod node;
mod parse;
mod per_head;
mod spec;
mod spec_serde;
mod structure;
mod token;
mod values;
mod variant;

pub use content::{ContentError, TensorContent, TensorSlot};
pub use error::ExprError;
pub use node::Node;
pub use per_head::PerHead;
pub use spec::{NodeSpec, PartSpec, PerHeadSpec, RemapSpec, VariantSpec};
pub use variant::{MissingTensor, Variant};

/// The names of the combinators.
pub(crate) const COMBINATORS: [&str; 5] = ["or", "not", "remap", "per_head", "union"];

/// Words that cannot name a variant: the grammar gives them another meaning.
pub(crate) fn is_reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "inf" | "nan") || COMBINATORS.contains(&name)
}

/// How deep combinators may be nested, brackets included.
const MAX_DEPTH: usize = 24;
