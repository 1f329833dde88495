//! The planner kernel, which builds work lists on the device, and the kernel that only checks batches. Variants without
//! a tile class share one planner.

use attn_core::expr::Variant;

use super::{SpliceError, Unit, templates::Inliner, traits_block, variant};
use crate::compile::Arch;

/// Stands for a variant whose mask gives no tile class.
const EVERY_KEY: &str = "\nstruct Variant {\n  static constexpr bool HAS_TILE_CLASS = false;\n};\n";

/// The source of the planner kernel for a variant.
#[derive(Clone, Debug)]
pub struct PlannerSource {
    /// The translation unit.
    pub text: String,
    /// The name in messages.
    pub name: String,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl PlannerSource {
    /// The planner for a variant that is no union.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together.
    pub fn build(of: &Variant, arch: Arch) -> Result<Self, SpliceError> {
        let planner = format!("planner {arch}");
        if variant::has_tile_class(of) {
            let name = format!("{}: {planner}", variant::outline(of));
            let language = ["arch/element.cuh", "lang/lang.cuh"];
            let source = variant::variant_source(&of.without_kv_formats())?;
            Self::assemble(name, &language, &source, "planner/kernel.cuh", arch)
        } else {
            Self::assemble(planner, &[], EVERY_KEY, "planner/kernel.cuh", arch)
        }
    }

    /// The kernel that checks batches and plans nothing.
    ///
    /// # Errors
    ///
    /// A mistake in the templates.
    pub fn checker(arch: Arch) -> Result<Self, SpliceError> {
        Self::assemble(format!("checks {arch}"), &[], EVERY_KEY, "planner/check_kernel.cuh", arch)
    }

    fn assemble(name: String, before: &[&str], variant: &str, template: &str, arch: Arch) -> Result<Self, SpliceError> {
        let mut unit = Inliner::of_unit(&name, before)?;
        unit.include("planner/params.cuh")?;
        unit.push(traits_block::FLAT);
        unit.push(variant);
        unit.include(template)?;
        Ok(PlannerSource { text: unit.finish(), name, arch })
    }
}

impl Unit for PlannerSource {
    fn text(&self) -> &str {
        &self.text
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn arch(&self) -> Arch {
        self.arch
    }
}
