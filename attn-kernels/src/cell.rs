//! A cell: one point of the grid of kernels, and the tile sizes chosen for it.

use attn_core::{
    dtype::{Dtype, Dtypes},
    plan::{PlanRule, Schedule},
    spec::{Heads, KernelKind, ValueRows},
};

use crate::{
    compile::Arch,
    cost::{Costs, HookClass},
};

/// Head dimensions that the templates are written for.
pub const HEAD_DIMS: [u32; 3] = [64, 128, 256];
/// Element types of the templates.
pub const DTYPES: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];

/// Threads of a CTA of the merge kernel.
pub const MERGE_THREADS: u32 = 128;
/// Threads of a CTA of the pass over keys and values.
pub const KV_PASS_THREADS: u32 = 128;

/// What a kernel is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellRequest {
    /// Kernel family.
    pub kind: KernelKind,
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// How wide values are, and where.
    pub values: ValueRows,
    /// Element types.
    pub dtypes: Dtypes,
    /// Whether keys and values are in pages.
    pub paged: bool,
    /// Query heads per KV head, or packed rows that share a list of keys; decode holds so many, up to 16, in one tile.
    pub group: u32,
    /// Whether the variant rewrites keys.
    pub key_hooks: bool,
    /// Whether the variant rewrites values.
    pub value_hooks: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

/// A kernel's compile-time constants; they are spliced in front of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Kernel family.
    pub kind: KernelKind,
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// Elements of a value, and of an output.
    pub value_dim: u32,
    /// Element types.
    pub dtypes: Dtypes,
    /// Whether keys and values are in pages.
    pub paged: bool,
    /// Prefill: keys are rewritten by a kernel of their own, into the workspace: hooks do so, and elements of 8 bits become f16.
    pub key_pre_pass: bool,
    /// Prefill: values are, too, for the same reasons.
    pub value_pre_pass: bool,
    /// Packed query rows of a CTA.
    pub tile_rows: u32,
    /// Prefill: keys that a CTA handles at a time.
    pub tile_keys: u32,
    /// Warps of a CTA.
    pub warps: u32,
    /// Steps that loads run ahead.
    pub stages: u32,
    /// Decode: keys of a warp in one step.
    pub warp_keys: u32,
    /// Decode: rows of a key, 0 to 2, that hooks rewrite from fp8 in a place of their own.
    pub moved_rows: u32,
    /// CTAs that registers and shared memory of an SM shall hold.
    pub ctas_per_sm: u32,
    /// The architecture to compile for.
    pub arch: Arch,
}

/// A kernel that there is no template for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The head dimension.
    #[error(
        "no {kind} kernel for head_dim = {head_dim}; there are: 64, 128, 256. Pad the heads with zeros, or use `Engine::cpu()`"
    )]
    HeadDim {
        /// Kernel family.
        kind: KernelKind,
        /// What was asked.
        head_dim: u32,
    },
    /// The element types.
    #[error(
        "no {kind} kernel for q and o of {} with k and v of {}; there are: f16 and bf16, the same for all, or e4m3 and e5m2 for k and v. \
         Convert, or use `Engine::cpu()`",
        .dtypes.qo, .dtypes.kv
    )]
    Dtypes {
        /// Kernel family.
        kind: KernelKind,
        /// What was asked.
        dtypes: Dtypes,
    },
}

impl Cell {
    /// The cell for a request.
    ///
    /// # Errors
    ///
    /// [`CellError`] names what was asked and what there is.
    pub fn choose(request: &CellRequest) -> Result<Self, CellError> {
        let &CellRequest { kind, head_dim, values, dtypes, paged, group, key_hooks, value_hooks, arch } = request;
        let value_dim = values.dim(Heads { qo: 1, kv: 1, head_dim });
        if !HEAD_DIMS.contains(&head_dim) || value_dim != head_dim || values.are_of_keys() {
            return Err(CellError::HeadDim { kind, head_dim });
        }
        let fp8 = dtypes.kv.is_fp8();
        if (dtypes.qo != dtypes.kv && !fp8) || !DTYPES.contains(&dtypes.qo) {
            return Err(CellError::Dtypes { kind, dtypes });
        }
        let prefill = kind == KernelKind::Prefill;
        let cell = Cell {
            kind,
            head_dim,
            value_dim,
            dtypes,
            paged,
            key_pre_pass: prefill && (key_hooks || fp8),
            value_pre_pass: prefill && (value_hooks || fp8),
            tile_rows: 128,
            tile_keys: 64,
            warps: 4,
            stages: 2,
            warp_keys: 16,
            moved_rows: 0,
            ctas_per_sm: 2,
            arch,
        };
        Ok(match kind {
            // as they measured best on an H200; two CTAs of four warps on an SM, but for the one of 196 KB
            KernelKind::Prefill => match head_dim {
                64 => Cell { tile_keys: 96, ..cell },
                256 if arch.max_smem() > 200 << 10 => Cell { warps: 8, ctas_per_sm: 1, ..cell },
                256 => Cell { tile_rows: 64, tile_keys: 32, ..cell },
                _ => cell,
            },
            KernelKind::Decode => cell.for_decode(group, key_hooks, value_hooks),
        })
    }

    /// Decode: as deep a ring as two CTAs leave room for on an SM, or one where two have none at all. A cubin runs on GPUs with less
    /// shared memory too, which must hold a CTA at least.
    fn for_decode(self, group: u32, moved_keys: bool, moved_values: bool) -> Self {
        let row_bytes = self.head_dim * self.dtypes.kv.size() as u32;
        let fp8 = self.dtypes.kv.is_fp8();
        let moved = if fp8 { u32::from(moved_keys) + u32::from(moved_values) } else { 0 };
        let cell = Cell {
            tile_rows: Cell::decode_rows(group, self.head_dim, self.value_dim),
            warp_keys: if row_bytes < 256 { 32 } else { 16 },
            moved_rows: moved,
            ..self
        };
        let (an_sm, most) = (self.arch.max_smem() + 1024, self.arch.least_smem());
        // three with a shorter ring where that is as many bytes on their way: they hide each other's arithmetic, and starts and ends of items
        let three = cell.tile_rows == 8 && (!fp8 || moved_keys || moved_values);
        let first = if three { (4, 2, 3) } else { (4, 3, 2) };
        let (two, few) = ([first, (4, 2, 2)], [(4, 3, 1), (4, 2, 1), (2, 2, 2), (2, 2, 1)]);
        let of = |warp_keys| move |(warps, stages, ctas_per_sm)| Cell { warp_keys, warps, stages, ctas_per_sm, ..cell };
        // two CTAs with fewer keys at a time rather than one
        let tries = two.map(of(cell.warp_keys)).into_iter().chain(two.map(of(16)));
        let mut tries = tries.chain(few.map(of(cell.warp_keys)));
        let fits = |cell: &Cell| {
            // a warp's states of all rows take a stage's place
            if cell.tile_rows * cell.head_dim * 4 > cell.stage_bytes() {
                return false;
            }
            let bytes = cell.smem_bytes() + 128; // and a flag of the template's, to the next line
            bytes <= most && cell.ctas_per_sm * (bytes + 1024) <= an_sm
        };
        tries.find(fits).unwrap_or(cell)
    }

    /// Rows of the decode tile for so many packed rows of a request; what it does not hold takes several tiles.
    #[must_use]
    pub fn decode_rows(rows: u32, head_dim: u32, value_dim: u32) -> u32 {
        if rows > 8 { Self::most_decode_rows(head_dim, value_dim) } else { 8 }
    }

    /// Rows of the largest decode tile.
    #[must_use]
    pub fn most_decode_rows(head_dim: u32, value_dim: u32) -> u32 {
        if head_dim.max(value_dim) < 256 { 16 } else { 8 }
    }

    /// Threads of a CTA.
    #[must_use]
    pub fn threads(&self) -> u32 {
        32 * self.warps
    }

    /// Decode: bytes of a warp's keys and values of one step, in shared memory.
    fn stage_bytes(&self) -> u32 {
        2 * self.warp_keys * self.head_dim * self.dtypes.kv.size() as u32
    }

    /// Dynamic shared memory of a CTA, in bytes: what the template calls `SMEM_BYTES`.
    #[must_use]
    pub fn smem_bytes(&self) -> u32 {
        match self.kind {
            KernelKind::Prefill => (self.tile_rows + 2 * self.stages * self.tile_keys) * self.head_dim * 2,
            KernelKind::Decode => {
                let merge = self.threads() / (self.head_dim / 8) * (self.head_dim * 4 + 8);
                let queries = (self.tile_rows * self.head_dim * 2).max(merge);
                let moved = self.moved_rows * self.warp_keys * self.head_dim * 2;
                self.warps * (self.stages * self.stage_bytes() + moved) + queries + self.warps * self.tile_rows * 8
            }
        }
    }

    /// Whether a kernel of its own rewrites keys or values before the main one.
    #[must_use]
    pub fn has_kv_pass(&self) -> bool {
        self.key_pre_pass || self.value_pre_pass
    }

    /// Keys of a CTA of that kernel: what the template calls `KV_PASS_KEYS`.
    #[must_use]
    pub fn kv_pass_keys(&self) -> u32 {
        4096 / self.head_dim
    }

    /// Keys that one step of the kernel takes; spans of work are best cut at multiples of it.
    #[must_use]
    pub fn step_keys(&self) -> u32 {
        match self.kind {
            KernelKind::Prefill => self.tile_keys,
            KernelKind::Decode => self.warp_keys * self.warps,
        }
    }

    /// How a batch is cut into work for kernels of this cell, of which a device holds `resident_ctas` at a time.
    ///
    /// `step_keys` is the most of [`Cell::step_keys`] of all kernels that run the work: arms of a union differ in nothing else that
    /// the rule needs, but for `hooks`: the most costly of theirs.
    #[must_use]
    pub fn plan_rule(&self, step_keys: u32, resident_ctas: u32, kv_heads: u32, hooks: HookClass) -> PlanRule {
        let (kv_align, min_span, schedule) = match self.kind {
            KernelKind::Prefill => (self.tile_keys, 512, Schedule::LongestFirst),
            KernelKind::Decode => (step_keys.max(64), 128, Schedule::Line),
        };
        let workers = (resident_ctas / kv_heads.max(1)).max(1);
        let cost = Costs::of(self, hooks).rule(self.kind, kv_align);
        PlanRule { tile_rows: self.tile_rows, kv_align, min_span, workers, cost, schedule }
    }

    /// What the cell is, in a line: `prefill head_dim 128 bf16 paged sm_90a`.
    #[must_use]
    pub fn describe(&self) -> String {
        let &Cell { kind, head_dim, paged, key_pre_pass, value_pre_pass, arch, tile_rows, .. } = self;
        let layout = if paged { "paged" } else { "ragged" };
        let keys = if key_pre_pass { " key-pass" } else { "" };
        let values = if value_pre_pass { " value-pass" } else { "" };
        let rows = if kind == KernelKind::Decode { format!(" rows {tile_rows}") } else { String::new() };
        let kv = if self.dtypes.kv == self.dtypes.qo { String::new() } else { format!(" over {}", self.dtypes.kv) };
        format!("{kind} head_dim {head_dim} {}{kv} {layout}{keys}{values}{rows} {arch}", self.dtypes.qo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: KernelKind, head_dim: u32) -> CellRequest {
        let arch = Arch::new(8, 0);
        let dtypes = Dtypes::bf16();
        CellRequest {
            kind,
            head_dim,
            values: ValueRows::Same,
            dtypes,
            paged: true,
            group: 4,
            key_hooks: true,
            value_hooks: true,
            arch,
        }
    }

    #[test]
    fn every_cell_fits_the_smallest_gpu() {
        // sm_80 cubins run on sm_86, which has as little as sm_120
        let archs = [Arch::new(8, 0), Arch::new(8, 6), Arch::new(12, 0)];
        for (kind, kv) in [KernelKind::Prefill, KernelKind::Decode]
            .map(|kind| [Dtype::Bf16, Dtype::E4m3].map(|kv| (kind, kv)))
            .concat()
        {
            for (head_dim, arch) in HEAD_DIMS.into_iter().flat_map(|dim| archs.map(|arch| (dim, arch))) {
                for (group, hooks) in [(4, true), (16, true), (4, false), (16, false)] {
                    let dtypes = Dtypes::bf16().with_kv(kv);
                    let of = CellRequest {
                        dtypes,
                        arch,
                        group,
                        key_hooks: hooks,
                        value_hooks: hooks,
                        ..request(kind, head_dim)
                    };
                    let cell = Cell::choose(&of).expect("supported");
                    assert!(cell.smem_bytes() + 64 <= Arch::new(12, 0).max_smem(), "{}", cell.describe());
                    assert_eq!(cell.has_kv_pass(), kind == KernelKind::Prefill && (hooks || kv.is_fp8()));
                }
            }
        }
    }

    #[test]
    fn what_there_is_no_template_for_is_named() {
        let error = Cell::choose(&request(KernelKind::Prefill, 80)).expect_err("80");
        assert_eq!(error, CellError::HeadDim { kind: KernelKind::Prefill, head_dim: 80 });
        assert!(error.to_string().contains("64, 128, 256"));
        let f32 = CellRequest { dtypes: Dtypes::f32(), ..request(KernelKind::Decode, 64) };
        assert!(matches!(Cell::choose(&f32), Err(CellError::Dtypes { .. })));
    }

    #[test]
    fn decode_tiles_hold_a_group() {
        for (group, rows) in [(1, 8), (3, 8), (8, 8), (9, 16), (16, 16), (32, 16)] {
            let cell = Cell::choose(&CellRequest { group, ..request(KernelKind::Decode, 128) }).expect("supported");
            assert_eq!(cell.tile_rows, rows);
        }
    }
}
