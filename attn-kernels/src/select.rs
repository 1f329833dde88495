//! Which kernel runs a batch: unless options or the variant decide, the one that is predicted to finish first.

mod decode_backend;
mod mixed;
mod predict;
mod selected;

use attn_core::batch::Layout;
use attn_core::spec::{ComputeType, Heads, KernelKind, PrefillBackend};

use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{Facts, KernelTraits, KernelTraitsError, KernelTraitsRequest};
use crate::plan_rules::own_sm_time;
use mixed::{CoRun, MixedLaunches};
use predict::{BatchSize, Candidate, MARGIN};

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
    heads: Heads,
    /// The problem. With invariant rows each request selects its kernel by its own lengths alone.
    request: KernelTraitsRequest,
    /// The prefill backend of mixed kernels.
    mixed_prefill: PrefillBackend,
    /// What decides before predictions do.
    fixed: FixedChoice,
    /// The candidates in order of preference at equal times: decode by ascending tile rows, then prefill.
    candidates: Vec<Candidate>,
    /// The kernel that runs some batches in place of the candidate of its family.
    special: Option<KernelTraits>,
    /// Mixed launches, if they are candidates.
    mixed: Option<MixedLaunches>,
    /// PackGQA rows of the largest decode tile of mixed kernels.
    max_mixed_rows: u64,
}

/// What options and the variant of an attention say of its kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedChoice {
    /// The kernel family that options name.
    pub forced: Option<KernelKind>,
    /// Queries that share a KV list, for a variant with KV lists.
    pub list_queries: Option<u64>,
    /// Whether branches share partial states, as those of a union do. Only the usual kernels support that.
    pub shares_partials: bool,
}

/// Two decode tiles, and prefill.
const MAX_CANDIDATES: usize = 3;

impl KernelSelector {
    /// The selector of an attention on a device with `multiprocessors` SMs, by `costs` for hooks of a class. `request`
    /// describes the problem; its kind does not matter.
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
        fixed: FixedChoice,
    ) -> Result<Self, KernelTraitsError> {
        // so that an error names the kind asked for
        KernelTraits::choose(request)?;
        let of_prefill @ KernelTraitsRequest { prefill, .. } = SelectedKernel::PREFILL.request(request);
        // With sm90 prefill a decode CTA has an SM of its own, and no more than two thirds of the SMs decode: heads
        // beyond would run one after the other.
        let many = u64::from(heads.kv) * 3 > u64::from(multiprocessors) * 2;
        let selector = KernelSelector {
            heads,
            request: *request,
            mixed_prefill: if prefill == PrefillBackend::Sm90 && many { PrefillBackend::Sm80 } else { prefill },
            fixed,
            candidates: Vec::new(),
            special: None,
            mixed: None,
            max_mixed_rows: KernelTraits::max_mixed_rows(request).into(),
        };
        let kernel = |selected| KernelTraits::choose(&selector.request_of(selected));
        let costs = |of: &KernelTraits| costs.of(&of.cost_key(), hooks);
        let candidate = |of: KernelTraits| Candidate::of(&of, costs(&of), heads.kv, multiprocessors);
        let mut rows = vec![request.decode_rows(1), request.max_decode_rows()];
        rows.dedup();
        let of = |kind| move |&rows: &u32| SelectedKernel::with_rows(kind, rows.into(), request);
        let decode = rows.iter().map(of(KernelKind::Decode)).map(|selected| kernel(selected).map(candidate));
        let mut candidates = decode.collect::<Result<Vec<_>, _>>()?;
        let usual = candidate(kernel(SelectedKernel::PREFILL)?);
        let exact = KernelTraitsRequest { compute_type: ComputeType::Exact, ..of_prefill };
        let sm80 = KernelTraitsRequest { prefill: PrefillBackend::Sm80, ..exact };
        let prefills = [usual, candidate(KernelTraits::choose(&sm80)?)];
        // unions, whose branches share partial states, run in the usual kernels
        let alone = !fixed.shares_partials;
        let mixed = rows.iter().map(of(KernelKind::Mixed)).map(|selected| kernel(selected).ok());
        let mixed: Vec<_> = mixed.zip(candidates.iter().copied()).collect();
        let mixed = MixedLaunches::of(&mixed, prefills, [multiprocessors, heads.kv].map(u64::from), own_sm_time(hooks));
        let mixed = mixed.filter(|_| alone);
        // options that name prefill name the usual kernel, unless they name this one
        let may_be_named = fixed.forced.is_none() || request.prefill == PrefillBackend::Sm90Resident;
        let has_special = alone && may_be_named && prefill == PrefillBackend::Sm90 && !request.row_invariant;
        let special = kernel(SelectedKernel { special: Some(PrefillBackend::Sm90Resident), ..SelectedKernel::PREFILL });
        let special = special.ok().filter(|traits| has_special && traits.facts().special.is_some());
        candidates.push(usual);
        Ok(KernelSelector { candidates, special, mixed, ..selector })
    }

    /// The kernel for a batch. A cascade needs the mixed kernel. Under options or a variant that fix the kernel, or
    /// under batch invariance, the longest request decides; otherwise predicted times do ([`KernelSelector::fastest`]).
    /// Some batches then run a special kernel of the family, such as prefill of short requests.
    pub fn select(&self, layout: &Layout) -> SelectedKernel {
        let FixedChoice { forced, list_queries, .. } = self.fixed;
        if layout.has_levels() || forced == Some(KernelKind::Mixed) {
            return SelectedKernel::with_rows(KernelKind::Mixed, self.max_decode_request_rows(layout), &self.request);
        }
        let by_length = forced.is_some() || self.request.row_invariant || list_queries.is_some();
        let selected = if by_length { self.select_for_length(layout.max_qo_len()) } else { self.fastest(layout) };
        let is_named = self.request.prefill == PrefillBackend::Sm90Resident;
        let runs = |of: Facts| of.kind == selected.kind && of.runs(layout, self.heads, is_named);
        self.special.filter(|traits| runs(traits.facts())).map_or(selected, |traits| SelectedKernel::of(&traits))
    }

    /// The kernel for requests of up to `qo_len` queries, whatever their keys: the family that options name; otherwise
    /// decode if the rows fit one decode tile, and prefill if they do not.
    pub fn select_for_length(&self, qo_len: usize) -> SelectedKernel {
        let fits = self.tile_rows(qo_len) <= self.request.max_decode_rows().into();
        let few = fits || qo_len <= 1 && self.fixed.list_queries.is_none();
        let by_length = if few { KernelKind::Decode } else { KernelKind::Prefill };
        self.kernel_of(self.fixed.forced.unwrap_or(by_length), qo_len)
    }

    /// The mixed kernel for cascades of any groups, of requests of up to `qo_len` queries. Its decode tile is the
    /// largest, which holds the rows of several requests: a group of up to that many rows reads its keys once. Where
    /// that does not hold a request, it is one that does, or that holds one query.
    pub fn mixed_for_levels(&self, qo_len: usize) -> SelectedKernel {
        let rows = match self.tile_rows(qo_len) {
            rows if rows <= self.max_mixed_rows => self.max_mixed_rows,
            rows if rows <= self.request.max_decode_rows().into() => rows,
            _ => self.tile_rows(1),
        };
        SelectedKernel::with_rows(KernelKind::Mixed, rows, &self.request)
    }

    /// The problem of a selected kernel.
    pub(crate) fn request_of(&self, selected: SelectedKernel) -> KernelTraitsRequest {
        let of = selected.request(&self.request);
        let prefill = if of.kind == KernelKind::Mixed { self.mixed_prefill } else { of.prefill };
        KernelTraitsRequest { prefill, ..of }
    }

    /// The kernel of a family for requests of up to `qo_len` queries. A mixed launch decodes requests of one query,
    /// whatever else is in the batch.
    pub fn kernel_of(&self, kind: KernelKind, qo_len: usize) -> SelectedKernel {
        match kind {
            KernelKind::Prefill => SelectedKernel::PREFILL,
            KernelKind::Decode => SelectedKernel::with_rows(kind, self.tile_rows(qo_len), &self.request),
            KernelKind::Mixed => SelectedKernel::with_rows(kind, self.tile_rows(1), &self.request),
        }
    }

    /// PackGQA rows that a Q tile should hold for requests of up to `qo_len` queries.
    fn tile_rows(&self, qo_len: usize) -> u64 {
        let queries = qo_len.max(1) as u64;
        self.fixed.list_queries.map_or(queries, |of_list| of_list.min(queries)) * u64::from(self.heads.group())
    }

    /// The most PackGQA rows of a request, or of requests that share a prefix, that fit a mixed kernel's decode tile.
    pub fn max_decode_request_rows(&self, layout: &Layout) -> u64 {
        let (qo, group) = (layout.qo_indptr(), u64::from(self.heads.group()));
        let packed = |first: usize, end: usize| (qo[end] - qo[first]) as u64 * group;
        let requests = (0..layout.batch()).map(|request| packed(request, request + 1));
        let groups = layout.segments().iter().map(|of| packed(of.requests().start, of.requests().end));
        requests.chain(groups).filter(|&rows| rows <= self.max_mixed_rows).max().unwrap_or(0)
    }

    /// The kernel that is predicted to finish first. If the smallest decode tile holds the rows of every request, it is
    /// decode with this tile, but for latent attention, whose decode is bound by instructions.
    ///
    /// Takes O(requests) time and does not allocate. Depends on the lengths alone, not on their order.
    pub fn fastest(&self, layout: &Layout) -> SelectedKernel {
        let (first, group) = (&self.candidates[0], u64::from(self.heads.group())); // there are two candidates at least
        let is_latent = self.request.head_dim_vo.shares_keys();
        if layout.max_qo_len() as u64 * group <= first.tile_rows && !is_latent {
            return first.kernel;
        }
        let sizes = self.sizes(layout, group);
        let all = || self.candidates.iter().zip(&sizes).map(|(of, size)| (of.time(size), of, size));
        let (fastest, alone) = all().map(|(time, of, _)| (time, of)).min_by_key(|of| of.0).unwrap_or((0, first));
        let mixed = self.mixed.as_ref().and_then(|mixed| mixed.predict(layout, group));
        if let Some(CoRun { time, prefill, rows }) = mixed {
            // prefill tiles take the same time in both launches, so the margin applies to the rest
            let same = if alone.kernel.kind == KernelKind::Prefill { prefill } else { 0 };
            if time.saturating_add(time.saturating_sub(same) / MARGIN) < fastest {
                return SelectedKernel { kind: KernelKind::Mixed, rows, special: None };
            }
        }
        let about_as_fast = all().filter(|(time, ..)| *time <= fastest.saturating_add(fastest / MARGIN));
        about_as_fast.min_by_key(|(_, candidate, size)| candidate.busy(size)).map_or(first, |(_, best, _)| best).kernel
    }

    /// The size of a batch in tiles of each candidate, in one pass over its requests.
    fn sizes(&self, layout: &Layout, group: u64) -> [BatchSize; MAX_CANDIDATES] {
        let mut sizes = [BatchSize::default(); MAX_CANDIDATES];
        // a fixed number, so that the inner loop is unrolled
        let tile_rows: [_; MAX_CANDIDATES] =
            std::array::from_fn(|at| self.candidates.get(at).map_or(u64::MAX, |candidate| candidate.tile_rows));
        let (mut all, mut longest) = (0, 0);
        let len = |ends: &[i32]| (ends[1] - ends[0]) as u64;
        for (qo, kv) in layout.qo_indptr().windows(2).zip(layout.kv_indptr().windows(2)) {
            let (rows, keys) = (len(qo) * group, len(kv));
            if rows == 0 {
                continue;
            }
            all += keys;
            longest = keys.max(longest);
            for (size, tile_rows) in sizes.iter_mut().zip(tile_rows) {
                // the common case, without a division
                let tiles = if rows <= tile_rows { 1 } else { rows.div_ceil(tile_rows) };
                size.tiles += tiles;
                size.tile_keys += u128::from(tiles) * u128::from(keys);
            }
        }
        sizes.map(|size| BatchSize { keys: all, longest, ..size })
    }
}

#[cfg(test)]
mod tests;
