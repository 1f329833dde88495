//! The planner kernel, which builds work lists on the device, and the kernel that only checks batches. Variants without
//! a tile class share one planner.

use std::fmt;

use attn_core::{
    expr::Variant,
    plan::{ListRule, Schedule},
};

use super::{SpliceError, Unit, templates::Inliner, traits_block, variant};
use crate::compile::Arch;

/// Stands for a variant whose mask gives no tile class.
const EVERY_KEY: &str = "\nstruct Variant {\n  static constexpr bool HAS_TILE_CLASS = false;\n};\n";

/// The planner kernels: a rule has one of them, and one more for batches with levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlannerKind {
    /// Stream-K cuts all tiles, laid end to end.
    StreamK,
    /// Each tile is split on its own.
    SplitTiles,
    /// A mixed list: stream-K cuts its decode part, tiles of its prefill part are split on their own.
    Mixed,
    /// A mixed list of a batch with levels.
    Cascade,
}

impl PlannerKind {
    /// All of them.
    pub const ALL: [PlannerKind; 4] =
        [PlannerKind::StreamK, PlannerKind::SplitTiles, PlannerKind::Mixed, PlannerKind::Cascade];

    /// Threads of its CTAs, `PLAN_THREADS` of its template. Masks need more registers where they are refined.
    pub fn threads(self) -> u32 {
        match self {
            PlannerKind::StreamK => 1024,
            PlannerKind::SplitTiles | PlannerKind::Mixed | PlannerKind::Cascade => 512,
        }
    }

    fn template(self) -> &'static str {
        match self {
            PlannerKind::StreamK => "planner/kernel.cuh",
            PlannerKind::SplitTiles => "planner/split_kernel.cuh",
            PlannerKind::Mixed => "planner/mixed_kernel.cuh",
            PlannerKind::Cascade => "planner/cascade_kernel.cuh",
        }
    }
}

/// The kernel of batches without levels.
impl From<&ListRule> for PlannerKind {
    fn from(rule: &ListRule) -> Self {
        match rule {
            ListRule::Mixed(_) => PlannerKind::Mixed,
            ListRule::Flat(rule) => match rule.schedule {
                Schedule::StreamK => PlannerKind::StreamK,
                Schedule::LongestFirst | Schedule::FixedSplit { .. } => PlannerKind::SplitTiles,
            },
        }
    }
}

impl fmt::Display for PlannerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlannerKind::StreamK => "planner",
            PlannerKind::SplitTiles => "planner of split tiles",
            PlannerKind::Mixed => "planner of mixed lists",
            PlannerKind::Cascade => "planner of cascades",
        })
    }
}

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
    pub fn build(of: &Variant, kind: PlannerKind, arch: Arch) -> Result<Self, SpliceError> {
        let planner = format!("{kind} {arch}");
        if variant::has_tile_class(of) {
            let name = format!("{}: {planner}", variant::outline(of));
            let language = ["arch/element.cuh", "lang/lang.cuh"];
            let source = variant::variant_source(&of.without_kv_formats())?;
            Self::assemble(name, &language, &source, kind.template(), arch)
        } else {
            Self::assemble(planner, &[], EVERY_KEY, kind.template(), arch)
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
