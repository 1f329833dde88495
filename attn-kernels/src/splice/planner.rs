//! The kernel that plans on a device: a unit of its own, the same for all variants of whose tiles nothing is known. And that which only checks.

use attn_core::expr::Variant;

use super::{SpliceError, Unit, cell_block, templates::Inliner, variant};
use crate::compile::Arch;

/// In place of a variant that hides no keys, or of which nobody knows beforehand which.
const EVERY_KEY: &str = "\nstruct Variant {\n  static constexpr bool HAS_TILE_CLASS = false;\n};\n";

/// The text of the kernel that plans batches of a variant whose lengths are on the device.
#[derive(Clone, Debug)]
pub struct PlannerSource {
    /// The translation unit.
    pub text: String,
    /// What messages call it.
    pub name: String,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl PlannerSource {
    /// For a variant, which is not a union.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together.
    pub fn build(of: &Variant, arch: Arch) -> Result<Self, SpliceError> {
        let mut unit = Inliner::default();
        let masked = variant::has_tile_class(of);
        let name = if masked { format!("{}: plans {arch}", variant::outline(of)) } else { format!("plans {arch}") };
        unit.push(&format!("// attn-rs, {name}\n"));
        for file in if masked {
            &["arch/element.cuh", "lang/lang.cuh", "planner/params.cuh"][..]
        } else {
            &["planner/params.cuh"]
        } {
            unit.include(file)?;
        }
        unit.push(cell_block::FLAT);
        unit.push(&if masked { variant::variant_source(of)? } else { EVERY_KEY.to_owned() });
        unit.include("planner/kernel.cuh")?;
        Ok(PlannerSource { text: unit.finish(), name, arch })
    }

    /// The kernel that only checks batches.
    ///
    /// # Errors
    ///
    /// None that is known.
    pub fn checker(arch: Arch) -> Result<Self, SpliceError> {
        let mut unit = Inliner::default();
        let name = format!("checks {arch}");
        unit.push(&format!("// attn-rs, {name}\n"));
        unit.include("planner/params.cuh")?;
        unit.push(cell_block::FLAT);
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
