//! A variant and a cell become one self-contained translation unit.
//!
//! Order: elements, the language, the ABI, the cell's constants, the variant's struct, the template of the kernel
//! family. No header of CUDA or C++ is included. Parameters of the variant are kernel arguments and not in the text,
//! so that a value never recompiles.

mod cell_block;
pub mod divisor;
mod mixed;
mod op;
mod planner;
mod support;
mod templates;
pub mod variant;
mod warpgroup;

use attn_core::{expr::Variant, lang::Hook, spec::KernelKind};

use crate::{cache::Key, cell::Cell, compile::Arch};

pub use op::{Op, OpSource, TRANSFORM_KERNELS};
pub use planner::PlannerSource;
pub use support::SpliceError;
pub use templates::NoTemplate;
pub use variant::{VariantError, parts_source, struct_size, variant_args, variant_source};

/// A translation unit that becomes a cubin.
pub trait Unit {
    /// The text.
    fn text(&self) -> &str;
    /// What messages call it.
    fn name(&self) -> &str;
    /// The architecture to compile for.
    fn arch(&self) -> Arch;
    /// The name of its cubin in the cache, and in tables built ahead of time.
    fn key(&self) -> Key {
        Key::of(self.text(), self.arch())
    }
}

/// The text of one kernel family for one variant and cell.
#[derive(Clone, Debug)]
pub struct KernelSource {
    /// The translation unit.
    pub text: String,
    /// What messages call it: the parts and the cell.
    pub name: String,
    /// The cell.
    pub cell: Cell,
}

impl KernelSource {
    /// Splices a variant into the template of a cell.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together.
    pub fn build(variant: &Variant, cell: &Cell) -> Result<Self, SpliceError> {
        support::check(variant, cell)?;
        Self::assemble(&variant::outline(variant), &variant::variant_source(variant)?, cell)
    }

    /// Splices the text of a `struct Variant` into the template of a cell.
    pub(crate) fn assemble(parts: &str, variant_struct: &str, cell: &Cell) -> Result<Self, SpliceError> {
        let name = format!("{parts}: {}", cell.describe());
        if cell.mixed.is_some() {
            return Ok(KernelSource { text: mixed::text(&name, variant_struct, cell)?, name, cell: *cell });
        }
        let mut unit = templates::Inliner::default();
        unit.push(&format!("// attn-rs, {name}\n"));
        for file in ["arch/element.cuh", "lang/lang.cuh", "abi/kernel_params.cuh"] {
            unit.include(file)?;
        }
        unit.push(&cell_block::text(cell));
        unit.push(variant_struct);
        if cell.in_warpgroups() {
            unit.push(&warpgroup::text(cell));
        }
        unit.include(match cell.kind {
            KernelKind::Prefill if cell.in_warpgroups() => "prefill/sm90/kernel.cuh",
            KernelKind::Prefill | KernelKind::Mixed => "prefill/sm80/kernel.cuh",
            KernelKind::Decode => "decode/kernel.cuh",
        })?;
        if cell.has_kv_pass() {
            unit.include("preprocess/kv_transform.cuh")?;
        }
        if !cell.merges_within() {
            unit.include("merge/kernel.cuh")?;
        }
        unit.push(&cell_block::checks(cell));
        Ok(KernelSource { text: unit.finish(), name, cell: *cell })
    }

    /// The name of its cubin in the cache, and in tables built ahead of time.
    #[must_use]
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
        self.cell.arch
    }
}

/// Whether the variant rewrites keys, which in prefill takes a kernel of its own.
#[must_use]
pub fn has_key_hooks(variant: &Variant) -> bool {
    variant.has(Hook::KeyTransform)
}

/// Whether the variant lists the keys that it reads.
#[must_use]
pub fn has_key_list(variant: &Variant) -> bool {
    variant.has(Hook::KvListLen)
}

/// Whether the variant rewrites values, which in prefill takes a kernel of its own.
#[must_use]
pub fn has_value_hooks(variant: &Variant) -> bool {
    variant.has(Hook::ValueTransform)
}
