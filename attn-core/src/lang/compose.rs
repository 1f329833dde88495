//! What goes together. `compose!` and the types of [`typed`] check it by trait bounds ([`kinds`]), so that a conflict is
//! a compile error even under `cargo check`; composition by name, and binding, check the same at run time (`check`).
//!
//! The rules:
//! - at most one part changes the normaliser, and a sink needs one with a running maximum;
//! - `or` and `not` take masks alone;
//! - branches of `per_head` all make weights in the same way;
//! - an arm of `union` changes nothing that the arms share: no normaliser, sink or output transform;
//! - a key list stands at the top, once; so does a union;
//! - the map of `remap` rewrites a position.

pub(crate) mod check;
mod error;
pub mod kinds;
pub mod typed;

pub use error::ComposeError;
pub use kinds::{
    Accepts, AddSink, Arm, ArmPlace, HasSink, Inner, InnerPlace, Join, Keeps, MapPart, Mask, MaskPlace, NoSink, Outer,
    Part, Replaces, ReplacesPlain, SameKind, TakesSink, Tested, Unions,
};
pub use typed::{And, Chain, Not, Or, PerHead, Remap, Union, and, not, or, per_head, remap, union};
#[doc(hidden)]
pub use typed::{a_map, a_mask, an_arm, inside};
