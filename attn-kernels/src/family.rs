//! Which kernels a batch runs: those that are done soonest, by what work costs them.

use std::fmt;

use attn_core::{
    batch::Layout,
    spec::{Heads, KernelKind, PrefillTemplate},
};

use crate::{
    cell::{Cell, CellError, CellRequest},
    cost::{COST_KEYS, Costs, HookClass},
};

/// A kernel family, and for decode how many packed rows its tile holds: a request is best read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family {
    /// The family.
    pub kind: KernelKind,
    /// Packed rows of a tile of decode, and of the decode part of a mixed launch; 0 for prefill.
    pub rows: u32,
}

impl Family {
    /// Prefill.
    pub const PREFILL: Self = Family { kind: KernelKind::Prefill, rows: 0 };

    /// Decode with the tile for so many rows of a request, with keys and values of so many elements.
    #[must_use]
    pub fn decode(rows: u64, head_dim: u32, value_dim: u32) -> Self {
        let rows = Cell::decode_rows(u32::try_from(rows).unwrap_or(u32::MAX), head_dim, value_dim);
        Family { kind: KernelKind::Decode, rows }
    }

    /// Mixed, whose decode part has the tile for so many rows of a request.
    #[must_use]
    pub fn mixed(rows: u64, head_dim: u32, value_dim: u32) -> Self {
        Family { kind: KernelKind::Mixed, ..Self::decode(rows, head_dim, value_dim) }
    }

    /// That of a kernel.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let prefill = cell.kind == KernelKind::Prefill;
        Family { kind: cell.kind, rows: if prefill { 0 } else { cell.decode_part().tile_rows } }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            KernelKind::Prefill => self.kind.fmt(f),
            KernelKind::Decode | KernelKind::Mixed => write!(f, "{} of {} rows", self.kind, self.rows),
        }
    }
}

/// The kernel families of an attention, and what work costs each on a device.
///
/// A batch runs the one that is predicted to be done soonest (of those within a sixteenth of it, the one that keeps the device least busy): all work over the workers of a KV head (decode's line is cut anywhere, prefill's tiles are
/// not where there are enough), and what a launch and a merge take. What a mask leaves out is not known here; it is left out of all families
/// alike. Where a batch has requests of few rows and of many, a mixed launch may be it: the longer of both parts and a share of the shorter.
#[derive(Clone, Debug)]
pub struct Families {
    /// Query heads per KV head.
    group: u64,
    /// In the order of preference where times are equal: decode from the smallest tile on, then prefill.
    candidates: Vec<Candidate>,
    /// The prefill part of a mixed launch, if it were alone; `None`: it is that of a launch of prefill.
    mixed_prefill: Option<Candidate>,
    /// Packed rows of each decode tile that a mixed kernel may have; empty where there is none, or it is not to be.
    mixed_rows: Vec<u64>,
    /// Packed rows of the largest decode tile of mixed kernels.
    most_mixed_rows: u64,
}

/// Of the shorter part of a mixed launch, the share that does not go on beside the longer one: multiprocessors issue for both, and
/// their ends do not meet. Measured on an H200: 0.50 to 0.62 (`benches/notes/mixed.md`).
const APART: [u64; 2] = [9, 16];

/// Times that differ by less than one part in so many are taken to be the same.
const MARGIN: u64 = 16;
/// Two tiles of decode, and prefill.
const MOST_CANDIDATES: usize = 3;

/// A family on a device.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    family: Family,
    tile_rows: u64,
    /// Per KV head.
    workers: u64,
    /// How often the device has to be filled so that every KV head gets a worker: once, but for more heads than it holds CTAs.
    rounds: u64,
    costs: Costs,
}

/// What a mixed launch of a batch is predicted to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beside {
    /// Nanoseconds in all.
    time: u64,
    /// Nanoseconds of its tiles of prefill, if they were alone.
    prefill: u64,
    /// Rows of its decode tile.
    rows: u32,
}

/// What a batch asks of a family: tiles, and keys in units of one.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    tiles: u64,
    /// Of all tiles.
    tile_keys: u128,
    /// Of all requests.
    keys: u64,
    /// Of the longest request.
    longest: u64,
}

/// Keys that prefill leaves in one piece, and decode: the planner's `min_span`.
const UNCUT_KEYS: [u64; 2] = [512, 128];

impl Families {
    /// Those of an attention on a device with so many multiprocessors. `request` says what the kernels are for, of whatever kind and rows.
    ///
    /// # Errors
    ///
    /// Heads or types that there is no kernel for.
    pub fn new(request: &CellRequest, hooks: HookClass, heads: Heads, multiprocessors: u32) -> Result<Self, CellError> {
        let most = Cell::most_decode_rows(heads.head_dim, request.values.dim(heads));
        let decode = [8, most].into_iter().take(if most > 8 { 2 } else { 1 });
        let template = request.template;
        let kinds = decode.map(|rows| (KernelKind::Decode, rows, template));
        let kinds = kinds.chain([(KernelKind::Prefill, 1, template)]);
        let candidate = |(kind, group, template)| {
            let cell = Cell::choose(&CellRequest { kind, group, template, ..*request })?;
            let costs = Costs::of(&cell, hooks);
            let (ctas, kv_heads) = (costs.ctas_per_sm * multiprocessors, heads.kv.max(1));
            Ok(Candidate {
                family: Family::of(&cell),
                tile_rows: cell.tile_rows.into(),
                workers: u64::from(ctas / kv_heads).max(1),
                rounds: kv_heads.div_ceil(ctas.max(1)).into(),
                costs,
            })
        };
        // what there is no kernel for is named with the kind that was asked for
        Cell::choose(request)?;
        let candidates: Vec<_> = kinds.map(candidate).collect::<Result<_, CellError>>()?;
        let by_mma = candidate((KernelKind::Prefill, 1, PrefillTemplate::Mma))?;
        let mixed_prefill = candidates.last().filter(|prefill| prefill.costs != by_mma.costs).map(|_| by_mma);
        // where a multiprocessor has room for one part at a time, two launches are as good
        let overlaps = |rows: &u32| {
            let cell = Cell::choose(&CellRequest { kind: KernelKind::Mixed, group: *rows, ..*request });
            cell.is_ok_and(|cell| cell.ctas_per_sm > 1)
        };
        let mixed_rows =
            [8, most].into_iter().take(if most > 8 { 2 } else { 1 }).filter(overlaps).map(u64::from).collect();
        let most_mixed_rows = Cell::most_mixed_rows(request).into();
        Ok(Families { group: heads.group().into(), candidates, mixed_prefill, mixed_rows, most_mixed_rows })
    }

    /// Without mixed launches: for variants that they do not run.
    #[must_use]
    pub fn without_mixed(self) -> Self {
        Families { mixed_rows: Vec::new(), ..self }
    }

    /// Packed rows of the smallest decode tile that holds every request which some tile holds, and every group of requests with keys in common.
    #[must_use]
    pub fn rows_of_few(&self, layout: &Layout) -> u64 {
        let packed =
            |first: usize, end: usize| (layout.qo_indptr()[end] - layout.qo_indptr()[first]) as u64 * self.group;
        let requests = (0..layout.batch()).map(|request| packed(request, request + 1));
        let groups = layout.segments().iter().map(|of| packed(of.first_request, of.first_request + of.requests));
        requests.chain(groups).filter(|&rows| rows <= self.most_mixed_rows).max().unwrap_or(0)
    }

    /// The family that a batch runs. The smallest decode tile, where it holds every request.
    ///
    /// O(requests), without memory of its own; the same for the same lengths.
    #[must_use]
    pub fn cheapest(&self, layout: &Layout) -> Family {
        let first = &self.candidates[0]; // there are two at least
        if layout.max_qo_len() as u64 * self.group <= first.tile_rows {
            return first.family;
        }
        let works = self.work(layout);
        let all =
            || self.candidates.iter().zip(&works).map(|(candidate, work)| (candidate.time(work), candidate, work));
        let (soonest, kind) = all()
            .map(|(time, candidate, _)| (time, candidate.family.kind))
            .min_by_key(|&(time, _)| time)
            .unwrap_or((0, first.family.kind));
        // the prediction is no better than this; then whatever keeps the device least busy
        if let Some(Beside { time, prefill, rows }) = self.mixed(layout) {
            // tiles of prefill are the same in a launch of prefill, by the same template: of them nothing has to be predicted
            let same = if kind == KernelKind::Prefill && self.mixed_prefill.is_none() { prefill } else { 0 };
            if time.saturating_add(time.saturating_sub(same) / MARGIN) < soonest {
                return Family { kind: KernelKind::Mixed, rows };
            }
        }
        let about_as_soon = all().filter(|(time, ..)| *time <= soonest.saturating_add(soonest / MARGIN));
        about_as_soon.min_by_key(|(_, candidate, work)| candidate.busy(work)).map_or(first, |(_, best, _)| best).family
    }

    /// A mixed launch of a batch that has requests of both parts.
    fn mixed(&self, layout: &Layout) -> Option<Beside> {
        let (&smallest, &largest) = (self.mixed_rows.first()?, self.mixed_rows.last()?);
        let of = |kind, tile: u64| {
            let is =
                |candidate: &&Candidate| candidate.family.kind == kind && (tile == 0 || candidate.tile_rows == tile);
            self.candidates.iter().find(is)
        };
        let prefill = self.mixed_prefill.as_ref().or_else(|| of(KernelKind::Prefill, 0))?;
        // requests that the smallest decode tile holds, those that the largest does, and others
        let mut works = [Work::default(); 3];
        let [small, large, many] = &mut works;
        for (qo, kv) in layout.qo_indptr().windows(2).zip(layout.kv_indptr().windows(2)) {
            let (packed, keys) = ((qo[1] - qo[0]) as u64 * self.group, (kv[1] - kv[0]) as u64);
            if packed > largest {
                many.add(packed.div_ceil(prefill.tile_rows), keys);
            } else if packed > smallest {
                large.add(1, keys);
            } else if packed > 0 {
                small.add(1, keys);
            }
        }
        let rows = if works[1].tiles > 0 { largest } else { smallest };
        let [mut few, large, many] = works;
        few.join(large);
        if few.tiles == 0 || many.tiles == 0 {
            return None;
        }
        let decode = of(KernelKind::Decode, rows)?;
        let alone =
            [(decode, &few), (prefill, &many)].map(|(part, work)| part.time(work) - u64::from(part.costs.launch));
        let launch = u64::from(decode.costs.launch.max(prefill.costs.launch));
        let (longer, shorter) = (alone[0].max(alone[1]), alone[0].min(alone[1]));
        let time = launch.saturating_add(longer).saturating_add(shorter / APART[1] * APART[0]);
        Some(Beside { time, prefill: alone[1], rows: u32::try_from(rows).unwrap_or(8) })
    }

    /// What a batch asks of each candidate, in one pass over its requests.
    fn work(&self, layout: &Layout) -> [Work; MOST_CANDIDATES] {
        let mut works = [Work::default(); MOST_CANDIDATES];
        let (mut all, mut longest) = (0, 0);
        let len = |ends: &[i32]| (ends[1] - ends[0]) as u64;
        for (qo, kv) in layout.qo_indptr().windows(2).zip(layout.kv_indptr().windows(2)) {
            let (rows, keys) = (len(qo) * self.group, len(kv));
            if rows == 0 {
                continue;
            }
            all += keys;
            longest = keys.max(longest);
            for (work, candidate) in works.iter_mut().zip(&self.candidates) {
                // most requests of a mixture decode
                let tiles = if rows <= candidate.tile_rows { 1 } else { rows.div_ceil(candidate.tile_rows) };
                work.tiles += tiles;
                work.tile_keys += u128::from(tiles) * u128::from(keys);
            }
        }
        works.map(|work| Work { keys: all, longest, ..work })
    }
}

impl Work {
    /// A request of so many tiles.
    fn add(&mut self, tiles: u64, keys: u64) {
        self.tiles += tiles;
        self.tile_keys += u128::from(tiles) * u128::from(keys);
        self.keys += keys;
        self.longest = self.longest.max(keys);
    }

    /// Those of another as well.
    fn join(&mut self, other: Work) {
        self.tiles += other.tiles;
        self.tile_keys += other.tile_keys;
        self.keys += other.keys;
        self.longest = self.longest.max(other.longest);
    }
}

impl Candidate {
    /// Nanoseconds of all CTAs for one KV head.
    fn total(&self, work: &Work) -> u64 {
        let Costs { piece, block, first, .. } = self.costs;
        (work.tiles.saturating_mul(piece.into()))
            .saturating_add(of_keys(work.tile_keys, block))
            .saturating_add(of_keys(work.keys.into(), first))
    }

    /// Nanoseconds that a multiprocessor is busy, for one KV head.
    fn busy(&self, work: &Work) -> u64 {
        self.total(work) / u64::from(self.costs.ctas_per_sm.max(1))
    }

    /// Nanoseconds of a run, about.
    fn time(&self, work: &Work) -> u64 {
        let Costs { launch, piece, block, first, merge, spread, .. } = self.costs;
        let [launch, piece, merge, spread] = [launch, piece, merge, spread].map(u64::from);
        if work.tiles == 0 {
            return launch;
        }
        let tile =
            |keys: u64| piece.saturating_add(of_keys(keys.into(), block)).saturating_add(of_keys(keys.into(), first));
        let (total, longest) = (self.total(work), tile(work.longest));
        // of a worker, where tiles are cut as far as they are worth it
        let cut = |uncut_keys: u64| (total / self.workers).max(longest.min(tile(uncut_keys)));
        let [uncut_prefill, uncut_decode] = UNCUT_KEYS;
        let share = match self.family.kind {
            // nor so far that merging states takes longer than shorter shares save
            KernelKind::Decode => cut(uncut_decode).max(longest.saturating_mul(spread).isqrt().min(longest)),
            // whole tiles, so many a worker
            KernelKind::Prefill if work.tiles >= self.workers => {
                let each = work.tiles.div_ceil(self.workers);
                longest.max((u128::from(total) * u128::from(each) / u128::from(work.tiles)) as u64)
            }
            KernelKind::Prefill | KernelKind::Mixed => cut(uncut_prefill),
        };
        let time = launch.saturating_add(share.saturating_mul(self.rounds));
        match share < longest {
            true => time.saturating_add(merge).saturating_add(longest.div_ceil(share.max(1)).saturating_mul(spread)),
            false => time,
        }
    }
}

/// What keys cost, of which [`COST_KEYS`] cost so much.
fn of_keys(keys: u128, cost: u32) -> u64 {
    u64::try_from(keys.saturating_mul(cost.into()) / u128::from(COST_KEYS)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
