//! Variants by name, at run time: `causal + sliding_window(window=4096) + soft_cap(cap=50)`.
//!
//! ```text
//! expr  = part ("+" part)*
//! part  = name [ "(" [ arg ("," arg)* [","] ] ")" ]
//! arg   = name "=" value
//! value = number | "true" | "false" | "[" [ value ("," value)* [","] ] "]"
//! ```
//!
//! A name is letters, digits and `_`, not a digit first. A number is written as in Rust, without suffix: `30`, `-0.5`,
//! `1e4`, `10_000`, and `inf`, `-inf`, `nan`. White space is free. `+` composes: masks AND, rows and logits transform in
//! order, sinks add up as exponentials, and at most one part changes the normaliser. `full` is the identity.
//!
//! `token` cuts the text, `parse` reads it, `variant` is what comes out, `spec` its serde form.

mod error;
mod parse;
mod spec;
mod token;
mod variant;

pub use error::ExprError;
pub use spec::{PartSpec, VariantSpec};
pub use variant::{MissingTensor, Variant};

/// Words that cannot name a variant: the grammar gives them another meaning.
pub(crate) const RESERVED: [&str; 4] = ["true", "false", "inf", "nan"];
