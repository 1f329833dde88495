//! What work costs a kernel, as measured.
//!
//! `attn calibrate` measures on a GPU and writes `costs/ARCH.jsonl`; `cargo xtask costs` makes the table of these files. Planning cuts batches by
//! [`Costs::rule`], and [`Families`](crate::family::Families) compares kernels by all of it.

mod table;

use attn_core::{expr::Variant, lang::Hook, plan::Cost, spec::KernelKind};

use crate::cell::Cell;

/// Keys that costs are counted for.
pub const COST_KEYS: u32 = 64;

/// Nanoseconds of a CTA of the main kernel while the whole device is at work, unless it is said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Costs {
    /// A run that has next to nothing to do, from its first launch to its end.
    pub launch: u32,
    /// Start and end of an item.
    pub piece: u32,
    /// [`COST_KEYS`] keys of a tile.
    pub block: u32,
    /// What `COST_KEYS` keys take once, however many tiles read them: arriving from memory, and the pass that rewrites them if there is one.
    pub first: u32,
    /// A run that has something to merge, beyond its states.
    pub merge: u32,
    /// One more partial state in a merge.
    pub spread: u32,
    /// CTAs that share a multiprocessor while it takes so long.
    pub ctas_per_sm: u32,
}

/// Which hooks run for every key or logit; what else a variant has costs next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookClass {
    /// Masks at most, and what runs once a row.
    None,
    /// Logits are rewritten.
    Logits,
    /// Keys or values are rewritten, and perhaps logits too.
    Rewrites,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// Compute capability, major part: 9 is for sm_90.
    major: u32,
    kind: KernelKind,
    /// Prefill: in warpgroups.
    warpgroups: bool,
    rows: u32,
    fp8: bool,
    head_dim: u32,
    hooks: HookClass,
    costs: Costs,
}

impl HookClass {
    /// That of a variant; of a union, of its most costly arm.
    #[must_use]
    pub fn of(variant: &Variant) -> Self {
        if variant.has(Hook::KeyTransform) || variant.has(Hook::ValueTransform) {
            HookClass::Rewrites
        } else if variant.has(Hook::LogitsTransform) {
            HookClass::Logits
        } else {
            HookClass::None
        }
    }

    /// What the files of the table call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HookClass::None => "none",
            HookClass::Logits => "logits",
            HookClass::Rewrites => "rewrites",
        }
    }
}

impl Costs {
    /// Of a kernel of this cell, from the nearest row of the table. Where that is of another cell, keys cost as much more as there is to read (decode)
    /// or to multiply (prefill), and as more CTAs share a multiprocessor.
    #[must_use]
    pub fn of(cell: &Cell, hooks: HookClass) -> Self {
        let first = &table::TABLE[0];
        let nearest = table::TABLE[1..].iter().fold((first.distance(cell, hooks), first), |best, row| {
            let distance = row.distance(cell, hooks);
            if distance < best.0 { (distance, row) } else { best }
        });
        match nearest {
            (0, row) => row.costs,
            (_, row) => row.scaled_to(cell),
        }
    }

    /// What cuts a batch into work: blocks of `kv_align` keys. A decode tile reads keys that nobody else reads.
    #[must_use]
    pub fn rule(&self, kind: KernelKind, kv_align: u32) -> Cost {
        let keys = match kind {
            KernelKind::Decode => u64::from(self.block) + u64::from(self.first),
            KernelKind::Prefill | KernelKind::Mixed => self.block.into(),
        };
        let block = (keys * u64::from(kv_align)).div_ceil(COST_KEYS.into());
        Cost { piece: self.piece, block: u32::try_from(block).unwrap_or(u32::MAX).max(1), spread: self.spread }
    }
}

/// A row, for the table. Costs are in the order of the fields of [`Costs`].
#[allow(clippy::too_many_arguments)] // a table
const fn row(
    major: u32,
    kind: KernelKind,
    rows: u32,
    fp8: bool,
    head_dim: u32,
    hooks: HookClass,
    ctas_per_sm: u32,
    [launch, piece, block, first, merge, spread]: [u32; 6],
) -> Measured {
    let costs = Costs { launch, piece, block, first, merge, spread, ctas_per_sm };
    Measured { major, kind, warpgroups: false, rows, fp8, head_dim, hooks, costs }
}

/// Such a row of prefill in warpgroups.
const fn warpgroups(row: Measured) -> Measured {
    Measured { warpgroups: true, ..row }
}

impl Measured {
    /// How unlike a cell is: first the kernel and its template, then the architecture, hooks, types, rows and head_dim; 0 for its own row.
    fn distance(&self, cell: &Cell, hooks: HookClass) -> u64 {
        let steps = |a: u32, b: u32| u64::from(a.max(1).ilog2().abs_diff(b.max(1).ilog2()));
        let unlike = [
            u64::from(self.kind != cell.kind) * 2 + u64::from(self.warpgroups != cell.in_warpgroups()),
            self.major.abs_diff(cell.arch.major()).into(),
            (self.hooks as u64).abs_diff(hooks as u64),
            u64::from(self.fp8 != cell.dtypes.kv.is_fp8()),
            steps(self.rows, cell.tile_rows),
            steps(self.head_dim, (cell.head_dim + cell.value_dim) / 2),
        ];
        unlike.into_iter().fold(0, |distance, step| distance << 8 | step)
    }

    fn scaled_to(&self, cell: &Cell) -> Costs {
        // elements of a key and its value
        let bytes = |elements: u32, fp8: bool| u64::from(elements) * if fp8 { 1 } else { 2 };
        let read = cell.head_dim + if cell.values_of_keys { 0 } else { cell.value_dim };
        let share = (u64::from(cell.ctas_per_sm), u64::from(self.costs.ctas_per_sm));
        let read = (bytes(read, cell.dtypes.kv.is_fp8()), bytes(2 * self.head_dim, self.fp8));
        let multiplied = |rows: u32, elements: u32| u64::from(rows) * u64::from(elements);
        let worked = match cell.kind {
            KernelKind::Decode => read,
            KernelKind::Prefill | KernelKind::Mixed => {
                // warps that share rows multiply with all of the keys, each
                let elements = cell.head_dim * cell.column_warps + cell.value_dim;
                (multiplied(cell.tile_rows, elements), multiplied(self.rows, 2 * self.head_dim))
            }
        };
        let scaled = |cost: u32, of: (u64, u64)| {
            let (more, less) = (of.0 * share.0, (of.1 * share.1).max(1));
            u32::try_from((u64::from(cost) * more + less / 2) / less).unwrap_or(u32::MAX)
        };
        let (block, first) = (scaled(self.costs.block, worked), scaled(self.costs.first, read));
        Costs { block, first, ctas_per_sm: cell.ctas_per_sm, ..self.costs }
    }
}

#[cfg(test)]
mod tests;
