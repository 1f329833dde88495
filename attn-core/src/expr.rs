//! Variants as expressions, read at run time: `causal + sliding_window(window=4096) + soft_cap(cap=50)`.
//!
//! ```text
//! expr  = item ("+" item)*
//! item  = "(" expr ")"
//!       | "or"       "(" expr "," expr ("," expr)* [","] ")"                  keys that one of the masks attends to
//!       | "not"      "(" expr [","] ")"                                       keys that the mask does not attend to
//!       | "remap"    "(" part "," expr [","] ")"                              expr at the positions that part gives
//!       | "per_head" "(" "heads" "=" value ("," expr)+ [","] ")"              a branch for each query head
//!       | "union"    "(" expr "," expr ("," expr)* [","] ")"                  disjoint sets of keys, one softmax
//!       | part
//! part  = name [ "(" [ arg ("," arg)* [","] ] ")" ]
//! arg   = name "=" value
//! value = number | "true" | "false" | "[" [ value ("," value)* [","] ] "]"
//! ```
//!
//! A name has letters, digits and `_`, and does not begin with a digit. A number is written as in Rust, without a
//! suffix: `30`, `-0.5`, `1e4`, `10_000`, `inf`, `-inf`, `nan`. White space and the place of `heads` do not matter.
//!
//! `+` composes: masks are ANDed, transforms of rows and logits apply in order, sinks add up as exponentials, and at
//! most one part changes the normaliser. `full` is the identity. `+` is associative, so brackets only group.
//!
//! - `or(a, b)` and `not(a)` take masks only. The bound `kv_pos < kv_len` is not part of a mask: `not` attends to
//!   existing keys.
//! - `remap(map, a)`: the hooks of `a` see `qo_pos` and `kv_pos` as `map` rewrites them (`remap_qo_pos`,
//!   `remap_kv_pos`).
//! - `per_head(heads=[0, 0, 1], a, b)`: query heads 0 and 1 have every hook of `a`, head 2 those of `b`.
//! - `union(a, b)`: the keys of `a`, and the keys of `b` that are not keys of `a`. The transforms of a branch apply to
//!   its keys. Parts outside of the union apply to both.
//!
//! [`expr::compose`](crate::expr::compose) has the rules of what composes.
//!
//! Files: `token` and `parse` read a text; `spec` is the serde form; `tree` has the data types, `variant` composition
//! and binding, `parameters` what is set by name; `hooks` runs a variant on the CPU; `class` and `refine` classify
//! tiles; `branches` splits a union; `structure` compares variants whose parameters differ.

mod branches;
mod budget;
mod class;
pub mod compose;
mod content;
mod coordinates;
mod error;
mod hooks;
mod kv_formats;
mod kv_lists;
mod kv_storage;
mod layers;
mod missing;
mod node;
mod owner;
mod parameters;
mod parse;
mod per_head;
mod refine;
mod spec;
mod spec_serde;
mod structure;
mod tile_classifier;
mod token;
mod tree;
mod values;
mod variant;

pub use content::{ContentError, TensorContent, TensorSlot};
pub use coordinates::PartRead;
pub use error::ExprError;
pub(crate) use kv_lists::KvLists;
pub use layers::{LayerError, Visibility, VisibilityInterner};
pub use missing::MissingTensor;
pub use spec::{NodeSpec, PartSpec, PerHeadSpec, RemapSpec, VariantSpec};
pub use structure::StructureError;
pub(crate) use tile_classifier::{End, TileClassifier, tile_of};
pub use tree::{Node, PerHeadNode, Variant};
