//! The items that the macros name by path. Not part of the public interface.
//!
//! `#[attention_variant] impl AttentionVariant for X` emits, beside the impl:
//!
//! ```text
//! impl ::attn::__private::lang::erased_variant::Described for X {
//!     fn desc() -> &'static ::attn::__private::lang::VariantDesc {
//!         static DESC: VariantDesc = VariantDesc { .., make: ::attn::__private::make::<X>, .. };
//!         &DESC
//!     }
//! }
//! // where the part may stand in a composition
//! impl ::attn::__private::expr::compose::Part for X { type Normalizer = ::attn::__private::expr::compose::Keeps; .. }
//! ::attn::__private::submit!(X);
//! ```

pub use crate::{expr, lang};

pub use crate::lang::derive_support::{ShapeProblem, bind_tensor, call_default, dim, dim_i32, require_failed};
pub use crate::lang::erased_variant::make;
pub use crate::lang::field::TensorField;
pub use crate::lang::kv_format::desc::make as make_kv_format;

#[doc(hidden)]
pub use crate::__attn_submit as submit;
#[doc(hidden)]
pub use crate::__attn_submit_kv_format as submit_kv_format;
#[cfg(feature = "inventory")]
pub use inventory;

/// The descriptor of a linked variant, as a function, so that a submission is a constant.
#[cfg(feature = "inventory")]
#[derive(Debug)]
pub struct Submitted(pub fn() -> &'static crate::lang::VariantDesc);

#[cfg(feature = "inventory")]
inventory::collect!(Submitted);

/// The descriptor of a linked KV format, as [`Submitted`].
#[cfg(feature = "inventory")]
#[derive(Debug)]
pub struct SubmittedKvFormat(pub fn() -> &'static crate::lang::kv_format::KvFormatDesc);

#[cfg(feature = "inventory")]
inventory::collect!(SubmittedKvFormat);

/// Registers a variant through `inventory`.
#[cfg(feature = "inventory")]
#[doc(hidden)]
#[macro_export]
macro_rules! __attn_submit {
    ($variant:ty) => {
        $crate::__private::inventory::submit! {
            $crate::__private::Submitted(<$variant as $crate::lang::erased_variant::Described>::desc)
        }
    };
}

/// Registers a KV format through `inventory`.
#[cfg(feature = "inventory")]
#[doc(hidden)]
#[macro_export]
macro_rules! __attn_submit_kv_format {
    ($format:ty) => {
        $crate::__private::inventory::submit! {
            $crate::__private::SubmittedKvFormat(<$format as $crate::lang::kv_format::DescribedKvFormat>::desc)
        }
    };
}

/// Without `inventory` this does nothing: variants are registered by tables and calls.
#[cfg(not(feature = "inventory"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __attn_submit {
    ($variant:ty) => {};
}

/// Without `inventory` this does nothing, as [`submit`].
#[cfg(not(feature = "inventory"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __attn_submit_kv_format {
    ($format:ty) => {};
}
