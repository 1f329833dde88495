//! The rules of composition. `compose!` and the types of [`typed`] check them through trait bounds ([`kinds`]), so a
//! conflict is a compile error, also under `cargo check`. Composition by name, and binding, check the same rules at run
//! time (`check`).
//!
//! The rules:
//! - at most one part changes the normaliser, and a sink needs one with a running maximum;
//! - `or` and `not` take masks only;
//! - all branches of `per_head` have the same normaliser;
//! - a branch of `union` has no normaliser, sink or output transform, since all keys of a row share these;
//! - a key list stands at the top level, at most once, and so does a union;
//! - the map of `remap` rewrites a position.

pub(crate) mod check;
pub mod kinds;
pub mod typed;

pub use crate::lang::ComposeError;
pub use kinds::{
    Accepts, AddSink, HasSink, Join, Keeps, MapPart, Mask, MaskPosition, Nested, NestedPosition, NoSink, Outer, Part,
    Replaces, ReplacesPlain, SameKind, TakesSink, Tested, UnionBranch, UnionBranchPosition, Unions,
};
pub use typed::{And, Chain, Not, Or, PerHead, Remap, Union, and, not, or, per_head, remap, union};
#[doc(hidden)]
pub use typed::{a_map, a_mask, a_union_branch, inside};
