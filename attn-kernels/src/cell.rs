//! A cell: one point of the grid of kernels, and the tile sizes chosen for it.

use attn_core::{
    dtype::{Dtype, Dtypes},
    plan::{Cost, MixedRule, PlanRule, Schedule, SharedRule, Sharing},
    spec::{Heads, KernelKind, PrefillTemplate, ValueRows},
};

use crate::{
    compile::Arch,
    cost::{Costs, HookClass},
};

/// Whether there are kernels for queries and keys of so many elements, and values of so many: multiples of 16 up to 256, and 512, for values where
/// keys are as long; of latent attention keys have 576.
#[must_use]
pub fn widths_are_known(head_dim: u32, value_dim: u32) -> bool {
    let known = |dim: u32| dim.is_multiple_of(16) && (16..=256).contains(&dim) || dim == 512;
    known(value_dim) && (known(head_dim) || head_dim == 576) && (value_dim <= 256 || head_dim >= value_dim)
}
/// Element types of the templates.
pub const DTYPES: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];

/// Keys that mixed lists leave in one piece of a tile of prefill: pieces merge in a launch that there is anyway, by few rows a CTA.
const MIXED_MIN_SPAN: u32 = 256;
/// Nanoseconds that a launch after another takes on an H200 when it merges a few states: 5.7 to 6.5 us by themselves, a part of them beside the launch before.
const MERGE_LAUNCH_NS: u32 = 4500;
/// What keys of decode cost more in a mixed launch, which has fewer CTAs a multiprocessor, in parts of 1024 (`benches/notes/mixed.md`).
const MIXED_DECODE_SLOWER: u32 = 128;

/// Shared memory that the templates have beside the dynamic: flags, and under a list the positions of keys.
const STATIC_BYTES: u32 = 128;

/// Shared memory of prefill in warpgroups beside its tiles, at most: what they tell each other.
const RING_STATE_BYTES: u32 = 512;

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
    /// Whether the variant lists the keys that it reads.
    pub key_lists: bool,
    /// Which template of prefill, if it runs the kernel; the other one does, if not.
    pub template: PrefillTemplate,
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
    /// Whether values are read where the keys are, whose first elements they are: those that no hook rewrites.
    pub values_of_keys: bool,
    /// Prefill: keys are rewritten by a kernel of their own, into the workspace: hooks do so, and elements of 8 bits become f16.
    pub key_pre_pass: bool,
    /// Prefill: values are, too, for the same reasons.
    pub value_pre_pass: bool,
    /// Packed query rows of a CTA.
    pub tile_rows: u32,
    /// Prefill: keys that a CTA handles at a time.
    pub tile_keys: u32,
    /// Warps of a CTA that multiply.
    pub warps: u32,
    /// Prefill on Hopper: warps that copy keys and values beside those that multiply, which do it as warpgroups; 0: those that multiply also copy.
    pub copy_warps: u32,
    /// Prefill: warps that have the same rows, and each its columns of their outputs.
    pub column_warps: u32,
    /// Steps that loads run ahead.
    pub stages: u32,
    /// Decode: keys of a warp in one step.
    pub warp_keys: u32,
    /// Decode: whether hooks rewrite keys from fp8 in a place of their own.
    pub moved_keys: bool,
    /// Decode: the same of values.
    pub moved_values: bool,
    /// CTAs that registers and shared memory of an SM shall hold.
    pub ctas_per_sm: u32,
    /// Mixed: the decode part; everything else is said of the prefill part.
    pub mixed: Option<DecodePart>,
    /// Mixed: an item may have rows of several requests, and keys are in segments.
    pub shared_rows: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

/// What the decode part of a mixed kernel has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodePart {
    /// Packed query rows of a tile.
    pub tile_rows: u32,
    /// Steps that loads run ahead.
    pub stages: u32,
    /// Keys of a warp in one step.
    pub warp_keys: u32,
    /// As [`Cell::moved_keys`].
    pub moved_keys: bool,
    /// As [`Cell::moved_values`].
    pub moved_values: bool,
}

/// A kernel that there is no template for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The head dimension.
    #[error(
        "no {kind} kernel for head_dim = {head_dim} and values of {value_dim}; there are: multiples of 16 up to 256, and 512 (of keys also 576; values of 512 where keys are as long). \
         Pad the heads with zeros, or use `Engine::cpu()`"
    )]
    HeadDim {
        /// Kernel family.
        kind: KernelKind,
        /// What was asked.
        head_dim: u32,
        /// Elements of a value.
        value_dim: u32,
    },
    /// Rows so long that their tiles do not fit.
    #[error(
        "no {kind} kernel for head_dim = {head_dim} and values of {value_dim} on {arch}: the smallest tiles take {bytes} bytes of shared memory, of which a \
         CTA has {most} there. Use a GPU with more, or `Engine::cpu()`"
    )]
    SharedMemory {
        /// Kernel family.
        kind: KernelKind,
        /// Elements of a key.
        head_dim: u32,
        /// Elements of a value.
        value_dim: u32,
        /// The architecture.
        arch: Arch,
        /// What they take.
        bytes: u32,
        /// What there is.
        most: u32,
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
    /// A decode part that does not fit beside a prefill part.
    #[error(
        "no mixed kernel for head_dim = {head_dim} with k and v of {kv} on {arch}: its shared memory is too small. Run requests of few queries and of many \
         in batches of their own, and keys that are shared as keys of each request"
    )]
    Mixed {
        /// What was asked.
        head_dim: u32,
        /// The element type of keys.
        kv: Dtype,
        /// The architecture.
        arch: Arch,
    },
}

/// Elements of a row of prefill's tiles, which are made of panels of 64.
fn panels(dim: u32) -> u32 {
    dim.next_multiple_of(64)
}

/// Bytes from row to row of decode's tiles, as in `memory/row_tile.cuh`.
fn row_pitch(bytes: u32) -> u32 {
    if bytes > 128 { bytes.next_multiple_of(128) } else { bytes.next_power_of_two().max(16) }
}

/// Lanes of a row that hooks work on, as in `memory/row.cuh`.
fn row_lanes(dim: u32) -> u32 {
    let values = match dim {
        ..=256 => 8,
        257..=512 => 16,
        _ => 32,
    };
    dim.div_ceil(values).next_power_of_two()
}

impl Cell {
    /// The cell for a request.
    ///
    /// # Errors
    ///
    /// [`CellError`] names what was asked and what there is.
    pub fn choose(request: &CellRequest) -> Result<Self, CellError> {
        let &CellRequest { kind, head_dim, values, dtypes, paged, group, key_hooks, value_hooks, arch, .. } = request;
        let value_dim = values.dim(Heads { qo: 1, kv: 1, head_dim });
        if !widths_are_known(head_dim, value_dim) {
            return Err(CellError::HeadDim { kind, head_dim, value_dim });
        }
        let fp8 = dtypes.kv.is_fp8();
        if (dtypes.qo != dtypes.kv && !fp8) || !DTYPES.contains(&dtypes.qo) {
            return Err(CellError::Dtypes { kind, dtypes });
        }
        let prefill = kind != KernelKind::Decode;
        let values_of_keys = values.are_of_keys() && !key_hooks && !value_hooks;
        let cell = Cell {
            kind,
            head_dim,
            value_dim,
            dtypes,
            paged,
            values_of_keys,
            key_pre_pass: prefill && (key_hooks || fp8),
            value_pre_pass: prefill && (value_hooks || fp8 && !values_of_keys),
            tile_rows: 128,
            tile_keys: 64,
            warps: 4,
            copy_warps: 0,
            column_warps: 1,
            stages: 2,
            warp_keys: 16,
            moved_keys: !prefill && fp8 && key_hooks,
            moved_values: !prefill && fp8 && value_hooks,
            ctas_per_sm: 2,
            mixed: None,
            shared_rows: false,
            arch,
        };
        let cell = match kind {
            KernelKind::Prefill if request.template == PrefillTemplate::Warpgroups && !request.key_lists => {
                cell.for_warpgroups().unwrap_or_else(|| cell.for_prefill())
            }
            KernelKind::Prefill => cell.for_prefill(),
            KernelKind::Decode => cell.for_decode(group, key_hooks || value_hooks),
            KernelKind::Mixed => cell.for_mixed(group, key_hooks, value_hooks)?,
        };
        let (bytes, most) = (cell.smem_bytes() + STATIC_BYTES, arch.least_smem());
        if bytes > most {
            return Err(CellError::SharedMemory { kind, head_dim, value_dim, arch, bytes, most });
        }
        Ok(cell)
    }

    /// Prefill: the tiles that measured best on an H200, of 64, 128 and 256; of other widths, those of the next longer ones as far as they fit.
    fn for_prefill(self) -> Self {
        let (keys, values) = (panels(self.head_dim), panels(self.value_dim));
        let large = self.arch.max_smem() > 200 << 10;
        let of =
            |tile_rows: u32, tile_keys, warps, ctas_per_sm| Cell { tile_rows, tile_keys, warps, ctas_per_sm, ..self };
        match (keys, values) {
            (..=64, ..=64) => of(128, 96, 4, 2),
            (..=128, ..=128) => of(128, 64, 4, 2),
            // as many keys as leave room for two CTAs
            (..=256, ..=128) => {
                let tries = [of(128, 48, 4, 2), of(128, 32, 4, 2), of(128, 16, 4, 2)];
                let an_sm = if large { self.arch.max_smem() + 1024 } else { 2 * self.arch.least_smem() };
                tries.into_iter().find(|cell| 2 * (cell.smem_bytes() + 1024) <= an_sm).unwrap_or(tries[2])
            }
            (..=256, ..=256) if large => of(128, 64, 8, 1),
            (..=256, ..=256) => of(64, 32, 4, 2),
            // one CTA, of as many rows and keys as there is room for
            _ => {
                let column_warps = values.div_ceil(256);
                let tries = [(64, 64), (64, 32), (32, 32), (32, 16), (16, 16)].map(|(tile_rows, tile_keys)| Cell {
                    column_warps,
                    ..of(tile_rows, tile_keys, tile_rows / 16 * column_warps, 1)
                });
                let fits = |cell: &Cell| {
                    // a pass of copies takes four rows of a warp
                    let whole = cell.tile_keys.is_multiple_of(4 * cell.warps);
                    whole && cell.smem_bytes() + STATIC_BYTES <= self.arch.least_smem()
                };
                tries.into_iter().find(fits).unwrap_or(tries[4])
            }
        }
    }

    /// Prefill in warpgroups, if they run the cell: on Hopper two or three that multiply and one that copies. As many keys as leave two stages; of short rows three, and a third
    /// warpgroup, since weights take as long as products there.
    fn for_warpgroups(self) -> Option<Self> {
        if !self.arch.has_warpgroups() || self.values_of_keys {
            return None;
        }
        let (tile_rows, tile_keys, stages) = match (panels(self.head_dim), panels(self.value_dim)) {
            (..=64, ..=64) => (192, 128, 3),
            (..=192, ..=128) => (128, 128, 2),
            (..=256, ..=256) => (128, 80, 2),
            _ => return None,
        };
        Some(Cell { tile_rows, tile_keys, stages, warps: tile_rows / 16, copy_warps: 4, ctas_per_sm: 1, ..self })
    }

    /// Decode: as deep a ring as two CTAs leave room for on an SM, or one where two have none at all. A cubin runs on GPUs with less
    /// shared memory too, which must hold a CTA at least.
    fn for_decode(self, group: u32, rewrites: bool) -> Self {
        let row_bytes = self.head_dim * self.dtypes.kv.size() as u32;
        let fp8 = self.dtypes.kv.is_fp8();
        let cell = Cell {
            tile_rows: Cell::decode_rows(group, self.head_dim, self.value_dim),
            warp_keys: if row_bytes < 256 { 32 } else { 16 },
            ..self
        };
        let (an_sm, most) = (self.arch.max_smem() + 1024, self.arch.least_smem());
        // three with a shorter ring where that is as many bytes on their way: they hide each other's arithmetic, and starts and ends of items
        // rows that hooks work on and that leave lanes over take registers
        let padded = rewrites && !(cell.head_dim.is_power_of_two() && cell.value_dim.is_power_of_two());
        let three = cell.tile_rows == 8 && (!fp8 || rewrites) && !padded;
        let first = if three { (4, 2, 3) } else { (4, 3, 2) };
        let (two, few) = ([first, (4, 2, 2)], [(4, 3, 1), (4, 2, 1), (2, 2, 2), (2, 2, 1)]);
        let of = |warp_keys| move |(warps, stages, ctas_per_sm)| Cell { warp_keys, warps, stages, ctas_per_sm, ..cell };
        // two CTAs with fewer keys at a time rather than one
        let tries = two.map(of(cell.warp_keys)).into_iter().chain(two.map(of(16)));
        // of long rows fewer warps, and rings as deep as there is room for; or more keys, whose stage holds the states
        let long = [(2, 4, 1), (2, 3, 1), (2, 2, 1), (1, 3, 1), (1, 2, 1)];
        let few = if cell.head_dim.max(cell.value_dim) > 256 { [few[0], few[1], long[0], long[1]] } else { few };
        let mut tries = tries
            .chain(few.map(of(cell.warp_keys)))
            .chain(long.map(of(cell.warp_keys)))
            .chain(few.map(of(32)))
            .chain(long.map(of(32)));
        let fits = |cell: &Cell| {
            // a warp's states of all rows take a stage's place
            if cell.tile_rows * cell.value_dim.next_multiple_of(32) * 4 > cell.stage_bytes() {
                return false;
            }
            let bytes = cell.smem_bytes() + STATIC_BYTES;
            bytes <= most && cell.ctas_per_sm * (bytes + 1024) <= an_sm
        };
        tries.find(fits).unwrap_or(cell)
    }

    /// Mixed: prefill in four warps, and a decode part of as many, whose ring is as deep as leaves room for two CTAs on an SM.
    fn for_mixed(self, group: u32, key_hooks: bool, value_hooks: bool) -> Result<Self, CellError> {
        let Cell { head_dim, value_dim, dtypes, arch, .. } = self;
        let refused = CellError::Mixed { head_dim, kv: dtypes.kv, arch };
        let prefill = Cell { kind: KernelKind::Prefill, ..self };
        let tiles = match prefill.for_prefill() {
            tiles if tiles.warps == 4 && tiles.column_warps == 1 => tiles,
            _ if head_dim.max(value_dim) <= 256 => Cell { tile_rows: 64, tile_keys: 32, ..prefill },
            _ => return Err(refused),
        };
        let fp8 = dtypes.kv.is_fp8();
        let of = |warp_keys, stages| {
            let tile_rows = Cell::decode_rows(group, head_dim, value_dim);
            let (moved_keys, moved_values) = (fp8 && key_hooks, fp8 && value_hooks);
            let mixed = Some(DecodePart { tile_rows, stages, warp_keys, moved_keys, moved_values });
            Cell { kind: self.kind, mixed, ..tiles }
        };
        let wide = if head_dim * (dtypes.kv.size() as u32) < 256 { 32 } else { 16 };
        let tries = [(wide, 3), (wide, 2), (16, 3), (16, 2)].map(|(warp_keys, stages)| of(warp_keys, stages));
        let (an_sm, most) = (arch.max_smem() + 1024, arch.least_smem());
        let fits = |ctas: u32| {
            move |cell: &Cell| {
                let (decode, bytes) = (cell.decode_part(), cell.smem_bytes() + STATIC_BYTES);
                let states = decode.tile_rows * value_dim.next_multiple_of(32) * 4;
                states <= decode.stage_bytes() && bytes <= most && ctas * (bytes + 1024) <= an_sm
            }
        };
        let two = tries.iter().find(|cell| fits(2)(cell)).map(|&cell| Cell { ctas_per_sm: 2, ..cell });
        let one = || tries.iter().find(|cell| fits(1)(cell)).map(|&cell| Cell { ctas_per_sm: 1, ..cell });
        two.or_else(one).ok_or(refused)
    }

    /// Mixed: for items with rows of several requests.
    #[must_use]
    pub fn with_shared_rows(self) -> Self {
        Cell { shared_rows: self.kind == KernelKind::Mixed, ..self }
    }

    /// Whether prefill runs in warpgroups, of which some multiply and one copies. Then a launch has no more CTAs than the device holds, and each takes work until
    /// there is none.
    #[must_use]
    pub fn in_warpgroups(&self) -> bool {
        self.copy_warps > 0
    }

    /// Bytes of shared memory that output rows have for themselves; 0: they take the place of queries.
    pub(crate) fn output_bytes(&self) -> u32 {
        let bytes = 2 * self.tile_rows * panels(self.value_dim);
        if self.has_room_for(bytes) { bytes } else { 0 }
    }

    /// Tiles of queries that shared memory holds: those of the next piece of work come while this one's are in use, where both have room.
    pub(crate) fn query_stages(&self) -> u32 {
        let (outputs, queries) = (self.output_bytes(), 2 * self.tile_rows * panels(self.head_dim));
        if outputs > 0 && self.has_room_for(outputs + queries) { 2 } else { 1 }
    }

    /// Whether prefill in warpgroups has so many bytes of shared memory beside its tiles.
    fn has_room_for(&self, bytes: u32) -> bool {
        self.in_warpgroups() && self.tile_bytes() + bytes + RING_STATE_BYTES <= self.arch.max_smem()
    }

    /// Bytes of prefill's tiles, one of queries.
    fn tile_bytes(&self) -> u32 {
        let (keys, values) = (panels(self.head_dim), if self.values_of_keys { 0 } else { panels(self.value_dim) });
        // those that warpgroups multiply begin at a multiple of 1024
        let slack = if self.in_warpgroups() { 1024 } else { 0 };
        slack + 2 * (self.tile_rows * keys + self.stages * self.tile_keys * (keys + values))
    }

    /// The decode part of a mixed cell, as a cell of one worker a multiprocessor; itself, of any other.
    #[must_use]
    pub fn decode_part(&self) -> Self {
        let Some(part) = self.mixed else { return *self };
        let DecodePart { tile_rows, stages, warp_keys, moved_keys, moved_values } = part;
        let of_decode = Cell { kind: KernelKind::Decode, mixed: None, shared_rows: false, ctas_per_sm: 1, ..*self };
        let of_decode = Cell { key_pre_pass: false, value_pre_pass: false, moved_keys, moved_values, ..of_decode };
        Cell { tile_rows, stages, warp_keys, ..of_decode }
    }

    /// The prefill part of a mixed cell; itself, of any other.
    #[must_use]
    pub fn prefill_part(&self) -> Self {
        let kind = if self.kind == KernelKind::Mixed { KernelKind::Prefill } else { self.kind };
        Cell { kind, mixed: None, shared_rows: false, ..*self }
    }

    /// Rows of the decode tile for so many packed rows of a request; what it does not hold takes several tiles.
    #[must_use]
    pub fn decode_rows(rows: u32, head_dim: u32, value_dim: u32) -> u32 {
        if rows > 8 { Self::most_decode_rows(head_dim, value_dim) } else { 8 }
    }

    /// Rows of the largest decode tile of a mixed kernel for a request of whatever kind and rows; of the largest of any, where there is no mixed one.
    #[must_use]
    pub fn most_mixed_rows(request: &CellRequest) -> u32 {
        let heads = Heads { qo: 1, kv: 1, head_dim: request.head_dim };
        let most = Self::most_decode_rows(request.head_dim, request.values.dim(heads));
        let there = |group| Cell::choose(&CellRequest { kind: KernelKind::Mixed, group, ..*request }).is_ok();
        if most > 8 && !there(most) && there(8) { 8 } else { most }
    }

    /// Rows of the largest decode tile.
    #[must_use]
    pub fn most_decode_rows(head_dim: u32, value_dim: u32) -> u32 {
        // registers hold queries and outputs, and a stage of keys and values the states of all rows
        if value_dim > 16 && value_dim <= head_dim && head_dim + 2 * value_dim <= 576 { 16 } else { 8 }
    }

    /// Threads of a CTA.
    #[must_use]
    pub fn threads(&self) -> u32 {
        32 * (self.warps + self.copy_warps)
    }

    /// Decode: bytes of a warp's keys and values of one step, in shared memory.
    fn stage_bytes(&self) -> u32 {
        let size = self.dtypes.kv.size() as u32;
        let values = if self.values_of_keys { 0 } else { row_pitch(self.value_dim * size) };
        self.warp_keys * (row_pitch(self.head_dim * size) + values)
    }

    /// Dynamic shared memory of a CTA, in bytes: what the template calls `SMEM_BYTES`.
    #[must_use]
    pub fn smem_bytes(&self) -> u32 {
        match self.kind {
            KernelKind::Prefill => {
                let more_queries = 2 * (self.query_stages() - 1) * self.tile_rows * panels(self.head_dim);
                self.tile_bytes() + self.output_bytes() + more_queries
            }
            KernelKind::Decode => {
                let merge = self.threads() / row_lanes(self.value_dim) * (self.value_dim * 4 + 8);
                let queries = (self.tile_rows * row_pitch(self.head_dim * 2)).max(merge);
                let moved = |moved, dim: u32| if moved { self.warp_keys * row_pitch(dim * 2) } else { 0 };
                let moved = moved(self.moved_keys, self.head_dim) + moved(self.moved_values, self.value_dim);
                self.warps * (self.stages * self.stage_bytes() + moved) + queries + self.warps * self.tile_rows * 8
            }
            KernelKind::Mixed => self.decode_part().smem_bytes().max(self.prefill_part().smem_bytes()),
        }
    }

    /// Whether the main kernel merges partial states, in the CTA that writes the last of a merge; if not, a kernel of its own does.
    #[must_use]
    pub fn merges_within(&self) -> bool {
        self.kind == KernelKind::Decode
    }

    /// Whether a kernel of its own rewrites keys or values before the main one.
    #[must_use]
    pub fn has_kv_pass(&self) -> bool {
        self.key_pre_pass || self.value_pre_pass
    }

    /// Keys of a CTA of that kernel: what the template calls `KV_PASS_KEYS`.
    #[must_use]
    pub fn kv_pass_keys(&self) -> u32 {
        KV_PASS_THREADS / row_lanes(self.head_dim.max(self.value_dim))
    }

    /// KV heads of a CTA of that kernel: what the template calls `KV_PASS_HEADS`.
    #[must_use]
    pub fn kv_pass_heads(&self) -> u32 {
        if self.head_dim.max(self.value_dim) > 256 { 1 } else { 4 }
    }

    /// Keys that one step of the kernel takes; spans of work are best cut at multiples of it.
    #[must_use]
    pub fn step_keys(&self) -> u32 {
        match self.kind {
            KernelKind::Prefill => self.tile_keys,
            KernelKind::Decode => self.warp_keys * self.warps,
            KernelKind::Mixed => self.decode_part().step_keys(),
        }
    }

    /// How a batch is cut into work for kernels of this cell, of which a device holds `resident_ctas` at a time.
    ///
    /// `step_keys` is the most of [`Cell::step_keys`] of all kernels that run the work: arms of a union differ in nothing else that
    /// the rule needs, but for `hooks`: the most costly of theirs.
    #[must_use]
    pub fn plan_rule(&self, step_keys: u32, resident_ctas: u32, kv_heads: u32, hooks: HookClass) -> PlanRule {
        let (kv_align, min_span, schedule) = match self.kind {
            KernelKind::Prefill | KernelKind::Mixed => (self.tile_keys, 512, Schedule::LongestFirst),
            KernelKind::Decode => (step_keys.max(64), 128, Schedule::Line),
        };
        let workers = (resident_ctas / kv_heads.max(1)).max(1);
        let cost = Costs::of(self, hooks).rule(self.kind, kv_align);
        PlanRule { tile_rows: self.tile_rows, kv_align, min_span, workers, cost, schedule }
    }

    /// How a mixed batch is cut, on a device of so many multiprocessors that holds `resident_ctas` of the kernel at a time, which both parts share by what they
    /// cost.
    ///
    /// A worker of decode beside a tile of prefill has the memory to itself, and reads as fast as several workers on a multiprocessor do together: so
    /// its keys cost it that part of what was measured with as many as fit.
    #[must_use]
    pub fn mixed_rule(&self, resident_ctas: u32, multiprocessors: u32, kv_heads: u32, hooks: HookClass) -> MixedRule {
        let (decode, prefill) = (self.decode_part(), self.prefill_part());
        let of_decode = decode.plan_rule(decode.step_keys(), resident_ctas, kv_heads, hooks);
        let of_prefill = prefill.plan_rule(prefill.tile_keys, resident_ctas, kv_heads, hooks);
        let measured = Costs::of(&decode, hooks).ctas_per_sm.max(1);
        let cost = of_decode.cost;
        let block = (cost.block / measured).max(1);
        // keys that have just been read are in the second-level cache, twice as near; they are read by a launch of decode, which fills the device
        let again = (cost.block.saturating_mul(self.ctas_per_sm) / measured).div_ceil(2).min(block);
        MixedRule {
            decode: PlanRule { cost: Cost { block, ..cost }, ..of_decode },
            prefill: PlanRule { min_span: MIXED_MIN_SPAN, ..of_prefill },
            beside: (multiprocessors / kv_heads.max(1)).max(1),
            // a state is written by one CTA and read by another
            shared: SharedRule {
                sharing: Sharing::Paying,
                state: 2 * cost.spread.max(1),
                again,
                launch: MERGE_LAUNCH_NS,
                slower: MIXED_DECODE_SLOWER,
            },
        }
    }

    /// What the cell is, in a line: `prefill head_dim 128 bf16 paged sm_90a`.
    #[must_use]
    pub fn describe(&self) -> String {
        let &Cell { kind, head_dim, value_dim, paged, key_pre_pass, value_pre_pass, arch, tile_rows, .. } = self;
        let layout = if paged { "paged" } else { "ragged" };
        let keys = if key_pre_pass { " key-pass" } else { "" };
        let values = if value_pre_pass { " value-pass" } else { "" };
        let rows = match self.mixed {
            Some(decode) => format!(" rows {}{}", decode.tile_rows, if self.shared_rows { " shared" } else { "" }),
            None if kind == KernelKind::Decode => format!(" rows {tile_rows}"),
            None if self.in_warpgroups() => " warpgroups".to_owned(),
            None => String::new(),
        };
        let kv = if self.dtypes.kv == self.dtypes.qo { String::new() } else { format!(" over {}", self.dtypes.kv) };
        let of_keys = if self.values_of_keys { " of the keys" } else { "" };
        let widths = if value_dim == head_dim { String::new() } else { format!(" values {value_dim}{of_keys}") };
        format!("{kind} head_dim {head_dim}{widths} {}{kv} {layout}{keys}{values}{rows} {arch}", self.dtypes.qo)
    }
}

#[cfg(test)]
mod tests;
