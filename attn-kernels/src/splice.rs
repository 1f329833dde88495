//! Splicing: a variant and kernel traits become one self-contained translation unit.
//!
//! In order: element types, the language, the ABI, the traits as constants, the variant's struct, the template of the
//! kernel family. No header of CUDA or C++ is included. Parameter values are kernel arguments and not part of the text,
//! so another value never recompiles.

mod error;
mod kernel_name;
mod mixed;
mod op;
mod planner;
mod reachable;
mod refusals;
mod templates;
mod traits_block;
pub mod variant;
mod wgmma;

use attn_core::{expr::Variant, spec::KernelKind};

use crate::{cache::Key, compile::Arch, kernel_traits::KernelTraits};

pub use error::SpliceError;
pub use op::{ENCODE_KERNELS, GATHER_PACKED_KERNELS, Op, OpSource, ROTATE_APPEND_KERNELS, TRANSFORM_KERNELS};
pub use planner::{PlannerKind, PlannerSource};
use templates::Inliner;
pub use templates::{NoTemplate, inlined};
pub use variant::{
    VariantError, kv_format_args, kv_format_text, parts_source, struct_size, variant_args, variant_source,
};

/// A translation unit that becomes a cubin.
pub trait Unit {
    /// The text.
    fn text(&self) -> &str;
    /// The name in messages.
    fn name(&self) -> &str;
    /// The architecture to compile for.
    fn arch(&self) -> Arch;
    /// The name of its cubin in the cache, and in tables built ahead of time.
    fn key(&self) -> Key {
        Key::of(self.text(), self.arch())
    }
}

impl<U: Unit + ?Sized> Unit for Box<U> {
    fn text(&self) -> &str {
        (**self).text()
    }
    fn name(&self) -> &str {
        (**self).name()
    }
    fn arch(&self) -> Arch {
        (**self).arch()
    }
}

/// The source of a kernel for one variant and its traits.
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// The translation unit.
    pub text: String,
    /// The name in messages: the parts of the variant and the traits.
    pub name: String,
    /// The kernel traits.
    pub traits: KernelTraits,
}

impl KernelSource {
    /// Splices a variant into the template that the traits select.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together in a kernel.
    pub fn build(variant: &Variant, traits: &KernelTraits) -> Result<Self, SpliceError> {
        refusals::refuse_unsupported(variant, traits)?;
        let name = format!("{}: {}", variant::outline(variant), traits.describe());
        if traits.kind() == KernelKind::Mixed {
            return Ok(KernelSource { text: mixed::text(&name, variant, traits)?, name, traits: *traits });
        }
        let mut unit = Inliner::of_kernel(&name, traits)?;
        unit.lists = variant.has_kv_list();
        unit.push(&traits_block::text(traits));
        unit.push(&variant::variant_source(variant)?);
        if traits.is_sm90_prefill() {
            unit.push(&wgmma::text(traits));
        }
        templates::row_access(traits).iter().try_for_each(|file| unit.include(file))?;
        if !traits.facts().has_workers && variant::has_long_hooks(variant) {
            unit.include(templates::ROLLED_SCORES)?;
        }
        let facts = traits.facts();
        facts.headers.iter().try_for_each(|header| unit.include(header))?;
        if traits.has_kv_preprocess() {
            let transposes = facts.transposed_keys.is_some();
            unit.include(if transposes { "preprocess/transpose_values.cuh" } else { "preprocess/kv_transform.cuh" })?;
        }
        if !traits.facts().has_workers {
            unit.include("merge/kernel.cuh")?;
        }
        unit.push(&traits_block::checks(traits));
        Ok(KernelSource { text: unit.finish(), name, traits: *traits })
    }

    /// The name of its cubin in the cache, and in tables built ahead of time.
    pub fn key(&self) -> Key {
        Unit::key(self)
    }
}

impl Unit for KernelSource {
    fn text(&self) -> &str {
        &self.text
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn arch(&self) -> Arch {
        self.traits.common.arch
    }
}
