//! Kernel selection: which kernel runs a batch. Unless options or the variant decide, it is the one that is predicted
//! to finish first.

mod decode_backend;
mod predict;
mod resident;
mod selected;

use attn_core::{
    batch::Layout,
    spec::{ComputeType, Heads, KernelKind, PrefillBackend},
};

use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{DecodeTiles, KernelTraits, KernelTraitsError, KernelTraitsRequest, OWN_SM_TIME};
use predict::{BatchSize, Candidate};
use resident::Resident;

pub use selected::SelectedKernel;

/// The kernels of an attention, and their measured costs on a device.
///
/// The predicted time of a kernel depends on the lengths of the batch alone. It is the total work divided by the
/// workers of a KV head, plus the costs of a launch and of merges. (Stream-K splits decode work anywhere. Prefill tiles
/// are split only if there are fewer tiles than workers.) The mask is ignored, because it reduces the work of all
/// kernels alike. Among kernels whose times differ by less than a sixteenth, the one that keeps the device least busy
/// is selected. Where a batch has requests of few rows and of many, a mixed launch is a candidate too. Its predicted
/// time is that of the longer part plus a share of the shorter; with sm90 prefill that of both parts on all SMs.
#[derive(Clone, Debug)]
pub struct KernelSelector {
    /// Query heads per KV head.
    group: u64,
    /// The Q tiles of decode.
    tiles: DecodeTiles,
    /// The kernel family that options name.
    forced: Option<KernelKind>,
    /// Batch invariance: whether each request selects its kernel by its own lengths alone.
    fixed_split: bool,
    /// Queries that share a KV list, for a variant with KV lists.
    list_queries: Option<u64>,
    /// The candidates in order of preference at equal times: decode by ascending tile rows, then prefill.
    candidates: Vec<Candidate>,
    /// The prefill part of a mixed launch, where it differs from the prefill kernel.
    mixed_prefill: Option<Candidate>,
    /// The device and its heads, if each decode CTA of a mixed launch has an SM of its own.
    own_sms: Option<OwnSms>,
    /// PackGQA rows of each decode tile that a mixed kernel may have; empty if mixed launches are no candidates.
    mixed_rows: Vec<u64>,
    /// PackGQA rows of the largest decode tile of mixed kernels.
    max_mixed_rows: u64,
    /// The prefill kernel whose keys stay in shared memory, if there is one.
    resident: Option<Resident>,
}

/// The share of the shorter part of a mixed launch that does not overlap with the longer part: SMs issue for both, and
/// the parts do not end together. Measured on an H200: 0.50 to 0.62 (`book/src/performance/notes/mixed.md`).
const OVERLAP_PENALTY: [u64; 2] = [9, 16];

/// A device on which the decode CTAs of a mixed launch have SMs of their own.
#[derive(Clone, Copy, Debug)]
struct OwnSms {
    multiprocessors: u64,
    kv_heads: u64,
    /// Whether keys are preprocessed for the prefill part: then those of all requests are.
    preprocesses: bool,
}

/// The prefill backend of mixed kernels for a number of KV heads. With sm90 prefill a decode CTA has an SM of its own,
/// and no more than two thirds of the SMs decode: heads beyond would run one after the other.
pub(crate) fn mixed_backend(prefill: PrefillBackend, kv_heads: u32, multiprocessors: u32) -> PrefillBackend {
    let many = u64::from(kv_heads) * 3 > u64::from(multiprocessors) * 2;
    if prefill == PrefillBackend::Sm90 && many { PrefillBackend::Sm80 } else { prefill }
}

/// Predicted times that differ by less than one part in `MARGIN` count as equal.
const MARGIN: u64 = 16;
/// Two decode tiles, and prefill.
const MAX_CANDIDATES: usize = 3;

/// The prediction for a mixed launch, whose decode and prefill parts run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CoRun {
    /// Nanoseconds of the launch.
    time: u64,
    /// Nanoseconds of the prefill tiles, if they ran alone.
    prefill: u64,
    /// Rows of the decode tile.
    rows: u32,
}

impl KernelSelector {
    /// The selector of an attention on a device with `multiprocessors` SMs, by `costs` for hooks of a class. `request`
    /// describes the problem; its kind and group do not matter.
    ///
    /// # Errors
    ///
    /// Heads or types that no kernel supports.
    pub fn new(
        request: &KernelTraitsRequest,
        hooks: HookClass,
        costs: &CostTable,
        heads: Heads,
        multiprocessors: u32,
    ) -> Result<Self, KernelTraitsError> {
        let tiles = request.decode_tiles();
        let (least, most) = (tiles.rows_for(1), tiles.max_rows());
        let decode_rows = || [least, most].into_iter().take(if most > least { 2 } else { 1 });
        // which batches keep their keys in shared memory is decided last
        let prefill = SelectedKernel::PREFILL.prefill_backend(request.prefill);
        let decode = decode_rows().map(|rows| (KernelKind::Decode, rows, prefill));
        let kernels = decode.chain([(KernelKind::Prefill, 1, prefill)]);
        let candidate = |(kind, group, backend)| {
            let compute_type = if backend == prefill { request.compute_type } else { ComputeType::Exact };
            let of = KernelTraitsRequest { kind, group, prefill: backend, compute_type, ..*request };
            let traits = KernelTraits::choose(&of)?;
            let costs = costs.of(&traits.cost_key(), hooks);
            let (ctas, kv_heads) = (costs.ctas_per_sm * multiprocessors, heads.kv.max(1));
            Ok(Candidate {
                kernel: SelectedKernel::of(&traits),
                tile_rows: traits.facts().tile_rows.into(),
                workers: u64::from(ctas / kv_heads).max(1),
                waves: kv_heads.div_ceil(ctas.max(1)).into(),
                costs,
            })
        };
        // so that an error names the kind asked for
        KernelTraits::choose(request)?;
        let candidates: Vec<_> = kernels.map(candidate).collect::<Result<_, KernelTraitsError>>()?;
        let sm80 = candidate((KernelKind::Prefill, 1, PrefillBackend::Sm80))?;
        let mixed_prefill = candidates.last().filter(|prefill| prefill.costs != sm80.costs).map(|_| sm80);
        let backend = mixed_backend(prefill, heads.kv, multiprocessors);
        let mixed = |group| {
            let of = KernelTraitsRequest { kind: KernelKind::Mixed, group, prefill: backend, ..*request };
            KernelTraits::choose(&of).ok()
        };
        let own_sm = |traits: KernelTraits| traits.is_sm90_prefill();
        // with one CTA per SM and a role for each CTA the parts do not overlap, and two launches are as good
        let overlaps = |rows: &u32| mixed(*rows).is_some_and(|traits| traits.facts().ctas_per_sm > 1 || own_sm(traits));
        let preprocesses = mixed(least).is_some_and(|traits| traits.has_kv_preprocess());
        let own_sms = OwnSms { multiprocessors: multiprocessors.into(), kv_heads: heads.kv.into(), preprocesses };
        Ok(KernelSelector {
            group: heads.group().into(),
            tiles,
            forced: None,
            fixed_split: false,
            list_queries: None,
            candidates,
            mixed_prefill,
            own_sms: decode_rows().all(|rows| mixed(rows).is_some_and(own_sm)).then_some(own_sms),
            mixed_rows: decode_rows().filter(overlaps).map(u64::from).collect(),
            max_mixed_rows: KernelTraits::max_mixed_rows(request).into(),
            resident: Resident::of(request, heads),
        })
    }

    /// Without the prefill kernel whose keys stay in shared memory, for variants that it does not support.
    #[must_use]
    pub fn without_resident(self) -> Self {
        KernelSelector { resident: None, ..self }
    }

    /// Without mixed launches, for variants that they do not support.
    #[must_use]
    pub fn without_mixed(self) -> Self {
        KernelSelector { mixed_rows: Vec::new(), ..self }
    }

    /// With the kernel family that options name, if they do.
    #[must_use]
    pub fn with_forced(self, forced: Option<KernelKind>) -> Self {
        KernelSelector { forced, ..self }
    }

    /// Batch invariance: whether each request selects its kernel by its own lengths alone.
    #[must_use]
    pub fn with_fixed_split(self, fixed_split: bool) -> Self {
        KernelSelector { fixed_split, ..self }
    }

    /// With the number of queries that share a KV list, for a variant with KV lists.
    #[must_use]
    pub fn with_list_queries(self, list_queries: Option<u64>) -> Self {
        KernelSelector { list_queries, ..self }
    }

    /// The kernel for a batch. A cascade needs the mixed kernel. Under options or a variant that fix the kernel, or
    /// under batch invariance, the longest request decides; otherwise predicted times do ([`KernelSelector::fastest`]).
    /// Prefill of short requests then keeps their keys in shared memory.
    pub fn select(&self, layout: &Layout) -> SelectedKernel {
        if layout.has_levels() || self.forced == Some(KernelKind::Mixed) {
            return SelectedKernel::mixed(self.max_decode_request_rows(layout), self.tiles);
        }
        let by_length = self.forced.is_some() || self.fixed_split || self.list_queries.is_some();
        let selected = if by_length { self.select_for_length(layout.max_qo_len()) } else { self.fastest(layout) };
        let resident = self.resident.as_ref().filter(|_| selected == SelectedKernel::PREFILL && !self.fixed_split);
        match resident {
            Some(resident) if resident.runs(layout, self.forced) => SelectedKernel::RESIDENT_PREFILL,
            _ => selected,
        }
    }

    /// The kernel for requests of up to `qo_len` queries, whatever their keys: the family that options name; otherwise
    /// decode if the rows fit one decode tile, and prefill if they do not.
    pub fn select_for_length(&self, qo_len: usize) -> SelectedKernel {
        let rows = self.tile_rows(qo_len);
        let few = qo_len <= 1 && self.list_queries.is_none() || rows <= self.max_decode_rows();
        let by_length = if few { KernelKind::Decode } else { KernelKind::Prefill };
        self.of_kind(self.forced.unwrap_or(by_length), rows)
    }

    /// The mixed kernel for requests of up to `qo_len` queries. Its decode tile holds `qo_len` queries if one does;
    /// otherwise it holds one query.
    pub fn mixed_for_length(&self, qo_len: usize) -> SelectedKernel {
        let rows = Some(self.tile_rows(qo_len)).filter(|&rows| rows <= self.max_decode_rows());
        SelectedKernel::mixed(rows.unwrap_or_else(|| self.tile_rows(1)), self.tiles)
    }

    /// The mixed kernel for cascades of any groups, of requests of up to `qo_len` queries. Its decode tile is the
    /// largest, which holds the rows of several requests: a group of up to that many rows reads its keys once.
    pub fn mixed_for_levels(&self, qo_len: usize) -> SelectedKernel {
        let most = self.max_mixed_rows;
        if self.tile_rows(qo_len) <= most {
            SelectedKernel::mixed(most, self.tiles)
        } else {
            self.mixed_for_length(qo_len)
        }
    }

    /// The kernel of a family for requests of one query.
    pub fn kernel_of(&self, kind: KernelKind) -> SelectedKernel {
        self.of_kind(kind, self.tile_rows(1))
    }

    /// Under batch invariance: the first request that would select a kernel other than `runs` if it were alone, and
    /// that other kernel.
    pub fn first_kernel_mismatch(&self, layout: &Layout, runs: SelectedKernel) -> Option<(usize, SelectedKernel)> {
        if !self.fixed_split {
            return None;
        }
        let requests = (0..layout.batch()).filter(|&request| layout.qo_len(request) > 0);
        let mut kernels = requests.map(|request| (request, self.select_for_length(layout.qo_len(request))));
        kernels.find(|&(_, alone)| alone != runs)
    }

    fn of_kind(&self, kind: KernelKind, rows: u64) -> SelectedKernel {
        match kind {
            KernelKind::Prefill => SelectedKernel::PREFILL,
            KernelKind::Decode => SelectedKernel::decode(rows, self.tiles),
            // a mixed launch decodes requests of one query, whatever else is in the batch
            KernelKind::Mixed => SelectedKernel::mixed(self.tile_rows(1), self.tiles),
        }
    }

    /// PackGQA rows that a Q tile should hold for requests of up to `qo_len` queries.
    fn tile_rows(&self, qo_len: usize) -> u64 {
        let queries = qo_len.max(1) as u64;
        self.list_queries.map_or(queries, |of_list| of_list.min(queries)) * self.group
    }

    fn max_decode_rows(&self) -> u64 {
        self.tiles.max_rows().into()
    }

    /// The most PackGQA rows of a request, or of a group of requests that share a prefix, among those that fit a decode
    /// tile of the mixed kernel.
    pub fn max_decode_request_rows(&self, layout: &Layout) -> u64 {
        let packed =
            |first: usize, end: usize| (layout.qo_indptr()[end] - layout.qo_indptr()[first]) as u64 * self.group;
        let requests = (0..layout.batch()).map(|request| packed(request, request + 1));
        let groups = layout.segments().iter().map(|of| packed(of.requests().start, of.requests().end));
        requests.chain(groups).filter(|&rows| rows <= self.max_mixed_rows).max().unwrap_or(0)
    }

    /// The kernel that is predicted to finish first. If the smallest decode tile holds the rows of every request, it is
    /// decode with this tile.
    ///
    /// Takes O(requests) time and does not allocate. Depends on the lengths alone, not on their order.
    pub fn fastest(&self, layout: &Layout) -> SelectedKernel {
        let first = &self.candidates[0]; // there are two at least
        if layout.max_qo_len() as u64 * self.group <= first.tile_rows {
            return first.kernel;
        }
        let sizes = self.sizes(layout);
        let all =
            || self.candidates.iter().zip(&sizes).map(|(candidate, size)| (candidate.time(size), candidate, size));
        let (fastest, kind) = all()
            .map(|(time, candidate, _)| (time, candidate.kernel.kind))
            .min_by_key(|&(time, _)| time)
            .unwrap_or((0, first.kernel.kind));
        if let Some(CoRun { time, prefill, rows }) = self.mixed(layout) {
            // prefill tiles take the same time in both launches if the backend is the same, so the margin applies to
            // the rest
            let same_backend = self.own_sms.is_some() || self.mixed_prefill.is_none();
            let same = if kind == KernelKind::Prefill && same_backend { prefill } else { 0 };
            if time.saturating_add(time.saturating_sub(same) / MARGIN) < fastest {
                return SelectedKernel { kind: KernelKind::Mixed, rows, resident: false };
            }
        }
        let about_as_fast = all().filter(|(time, ..)| *time <= fastest.saturating_add(fastest / MARGIN));
        about_as_fast.min_by_key(|(_, candidate, size)| candidate.busy(size)).map_or(first, |(_, best, _)| best).kernel
    }

    /// The prediction for a mixed launch, if the batch has requests for both parts.
    fn mixed(&self, layout: &Layout) -> Option<CoRun> {
        let (&smallest, &largest) = (self.mixed_rows.first()?, self.mixed_rows.last()?);
        let of = |kind, tile: u64| {
            let is =
                |candidate: &&Candidate| candidate.kernel.kind == kind && (tile == 0 || candidate.tile_rows == tile);
            self.candidates.iter().find(is)
        };
        let other = self.mixed_prefill.as_ref().filter(|_| self.own_sms.is_none());
        let prefill = other.or_else(|| of(KernelKind::Prefill, 0))?;
        // requests that fit the smallest decode tile, the largest decode tile, and neither
        let mut sizes = [BatchSize::default(); 3];
        let [small, large, many] = &mut sizes;
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
        let rows = if sizes[1].tiles > 0 { largest } else { smallest };
        let [mut few, large, many] = sizes;
        few.join(large);
        if few.tiles == 0 || many.tiles == 0 {
            return None;
        }
        let decode = of(KernelKind::Decode, rows)?;
        let alone =
            [(decode, &few), (prefill, &many)].map(|(part, size)| part.time(size) - u64::from(part.costs.launch));
        let launch = u64::from(decode.costs.launch.max(prefill.costs.launch));
        let both = match self.own_sms {
            None => {
                let (longer, shorter) = (alone[0].max(alone[1]), alone[0].min(alone[1]));
                longer.saturating_add(shorter / OVERLAP_PENALTY[1] * OVERLAP_PENALTY[0])
            }
            // all SMs are busy until the last prefill tiles, but decode takes no less than what memory allows
            Some(OwnSms { multiprocessors, kv_heads, preprocesses }) => {
                let [time, of_all] = OWN_SM_TIME.map(u64::from);
                let of_decode = if preprocesses { prefill.first(few.keys) } else { 0 };
                let of_head = (decode.busy(&few) / of_all * time).saturating_add(prefill.busy(&many));
                let of_head = of_head.saturating_add(of_decode);
                let shared = (u128::from(of_head) * u128::from(kv_heads) / u128::from(multiprocessors.max(1))) as u64;
                let last = prefill.tile(many.longest) / 2;
                shared.saturating_add(last).max(alone[0]).saturating_add(prefill.costs.merge_launch.into())
            }
        };
        let time = launch.saturating_add(both);
        Some(CoRun { time, prefill: alone[1], rows: u32::try_from(rows).unwrap_or(8) })
    }

    /// The size of a batch in tiles of each candidate, in one pass over its requests.
    fn sizes(&self, layout: &Layout) -> [BatchSize; MAX_CANDIDATES] {
        let mut sizes = [BatchSize::default(); MAX_CANDIDATES];
        let (mut all, mut longest) = (0, 0);
        let len = |ends: &[i32]| (ends[1] - ends[0]) as u64;
        for (qo, kv) in layout.qo_indptr().windows(2).zip(layout.kv_indptr().windows(2)) {
            let (rows, keys) = (len(qo) * self.group, len(kv));
            if rows == 0 {
                continue;
            }
            all += keys;
            longest = keys.max(longest);
            for (size, candidate) in sizes.iter_mut().zip(&self.candidates) {
                // the common case, without a division
                let tiles = if rows <= candidate.tile_rows { 1 } else { rows.div_ceil(candidate.tile_rows) };
                size.tiles += tiles;
                size.tile_keys += u128::from(tiles) * u128::from(keys);
            }
        }
        sizes.map(|size| BatchSize { keys: all, longest, ..size })
    }
}

#[cfg(test)]
mod tests;
