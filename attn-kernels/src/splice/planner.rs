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
        let mut unit = Inliner::default();
        let masked = variant::has_tile_class(of);
        let name = if masked { format!("{}: planner {arch}", variant::outline(of)) } else { format!("planner {arch}") };
        unit.push(&format!("// attn-rs, {name}\n"));
        for file in if masked {
            &["arch/element.cuh", "lang/lang.cuh", "planner/params.cuh"][..]
        } else {
            &["planner/params.cuh"]
        } {
            unit.include(file)?;
        }
        unit.push(traits_block::FLAT);
        unit.push(&if masked { variant::variant_source(of)? } else { EVERY_KEY.to_owned() });
        unit.include("planner/kernel.cuh")?;
        Ok(PlannerSource { text: unit.finish(), name, arch })
    }

    /// The kernel that checks batches and plans nothing.
    ///
    /// # Errors
    ///
    /// A mistake in the templates.
    pub fn checker(arch: Arch) -> Result<Self, SpliceError> {
        let mut unit = Inliner::default();
        let name = format!("checks {arch}");
        unit.push(&format!("// attn-rs, {name}\n"));
        unit.include("planner/params.cuh")?;
        unit.push(traits_block::FLAT);
        unit.push(EVERY_KEY);
        unit.include("planner/check_kernel.cuh")?;
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
