//! Classes of hooks, by the time that they add to a kernel.

use attn_core::{expr::Variant, lang::Hook};

/// The hooks of a variant that run for every key or logit. Other hooks cost next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookClass {
    /// None, apart from masks and hooks that run once per row.
    None,
    /// A `logits_transform`.
    Logits,
    /// A `key_transform`, a `value_transform` or KV formats, with or without a `logits_transform`.
    Rewrites,
}

impl HookClass {
    /// The class of a variant; for a union that of its most costly branch.
    #[must_use]
    pub fn of(variant: &Variant) -> Self {
        // rows of KV formats are decoded as hooks rewrite rows
        if variant.kv_formats().is_some() || variant.has(Hook::KeyTransform) || variant.has(Hook::ValueTransform) {
            HookClass::Rewrites
        } else if variant.has(Hook::LogitsTransform) {
            HookClass::Logits
        } else {
            HookClass::None
        }
    }

    /// The name in the files of measured costs.
    pub const fn name(self) -> &'static str {
        match self {
            HookClass::None => "none",
            HookClass::Logits => "logits",
            HookClass::Rewrites => "rewrites",
        }
    }
}
