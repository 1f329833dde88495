//! What is asked of the CPU backend.

use super::{
    CpuError,
    read::{Kv, Rows},
    weights::Run,
};
use crate::{
    batch::Layout,
    dtype::Dtypes,
    expr::Variant,
    lang::{Hook, LogitIndex, Normalizer, RowIndex},
    plan::{
        Cost, Lists, MixedRule, PlanError, PlanRule, Schedule, Scratch as PlanScratch, SharedRule, Sharing, WorkList,
        lists_of, logit_index, row_index,
    },
    spec::{Heads, ValueRows},
    tensor::{Kv as KvTensors, TensorError, TensorRef, check_inputs},
};

/// Keys that are loaded, transformed and multiplied at a time.
pub(super) const BLOCK: usize = 64;

/// One attention over one batch.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// What to compute; bound.
    pub variant: &'a Variant,
    /// Head counts and head dimension, any that [`Heads::check`] allows.
    pub heads: Heads,
    /// How wide values are, and where.
    pub values: ValueRows,
    /// What `q . k` is multiplied by.
    pub sm_scale: f32,
    /// The batch.
    pub layout: &'a Layout,
    /// Its work; neither [`oracle`](super::oracle) nor [`run_mixed`](super::run_mixed) looks at it.
    pub work: &'a WorkList,
    /// (qo tokens, qo heads, head_dim) in host memory.
    pub q: TensorRef<'a>,
    /// Keys and values in host memory.
    pub kv: KvTensors<'a>,
}

/// A plan that keeps the threads of this machine busy.
#[must_use]
pub fn plan_rule(heads: Heads) -> PlanRule {
    let threads = rayon::current_num_threads() as u32;
    PlanRule {
        tile_rows: 64,
        kv_align: BLOCK as u32,
        min_span: 1024,
        workers: (4 * threads).div_ceil(heads.kv.max(1)).max(1),
        cost: Cost::BLOCKS,
        schedule: Schedule::LongestFirst,
    }
}

/// A mixed plan that keeps the threads of this machine busy. Costs are rough: a block of keys takes about as long to read, and to rewrite, as to be
/// multiplied by a tile of few rows.
#[must_use]
pub fn mixed_rule(heads: Heads) -> MixedRule {
    let prefill = plan_rule(heads);
    let cost = Cost { piece: 1, block: 2, spread: 0 };
    MixedRule {
        decode: PlanRule { tile_rows: 16, cost, schedule: Schedule::Line, ..prefill },
        prefill: PlanRule { cost: Cost { block: 5, ..cost }, ..prefill },
        beside: prefill.workers,
        shared: SharedRule { sharing: Sharing::Paying, state: 1, again: 2, launch: 0, slower: 0 },
    }
}

/// As [`WorkList::rebuild_for_all`], of a cascade too: this backend finds keys by their positions, wherever they are, so that work of single requests
/// runs over levels as well. It shares nothing; it is for variants that have no mixed list.
///
/// # Errors
///
/// As [`WorkList::rebuild_for_all`].
pub fn work_of(
    variant: &Variant,
    others: &[Variant],
    layout: &Layout,
    heads: Heads,
    rule: &PlanRule,
) -> Result<WorkList, PlanError> {
    let positions = layout.has_levels().then(|| layout.positions());
    let mut work = WorkList::default();
    let layout = positions.as_ref().unwrap_or(layout);
    work.rebuild_for_all(&mut PlanScratch::default(), variant, others, layout, heads, rule)?;
    Ok(work)
}

/// Checks that the CPU backend runs the normaliser of a variant; it runs every hook.
///
/// # Errors
///
/// A sink under [`Normalizer::Plain`], which keeps no maximum that it could enter at.
pub fn check_variant(variant: &Variant) -> Result<(), CpuError> {
    match variant.normalizer() {
        normalizer @ Normalizer::Plain { .. } if variant.has(Hook::SinkLogit) => {
            let part = variant.parts().find(|part| part.desc().has(Hook::SinkLogit));
            Err(CpuError::Sink { variant: part.map_or("", |part| part.desc().name), normalizer })
        }
        _ => Ok(()),
    }
}

/// A problem that is known to fit, ready to be read.
pub(super) struct Sound<'a> {
    /// One arm of a union, or all of a variant without.
    pub(super) variant: &'a Variant,
    pub(super) normalizer: Normalizer,
    pub(super) max_floor: f32,
    pub(super) has_logits_transform: bool,
    pub(super) has_denominator: bool,
    /// Whether rows are left without sink and output transform.
    pub(super) unfinished: bool,
    pub(super) lists: Option<Lists<'a>>,
    /// Whether a hook asks for the number of a key's block in the list.
    pub(super) asks_slots: bool,
    pub(super) heads: Heads,
    /// Elements of a value, and of an output.
    pub(super) value_dim: usize,
    pub(super) sm_scale: f32,
    pub(super) layout: &'a Layout,
    pub(super) q: Rows<'a>,
    pub(super) k: Kv<'a>,
    pub(super) v: Kv<'a>,
}

impl<'a> Problem<'a> {
    /// The element types of the inputs.
    pub(super) fn dtypes(&self) -> Dtypes {
        Dtypes { qo: self.q.dtype(), kv: self.kv.k.dtype() }
    }

    /// Checks all but the work and the output.
    pub(super) fn sound(&self) -> Result<Sound<'a>, CpuError> {
        check_inputs(self.layout, self.heads, self.values, self.dtypes(), &self.q, &self.kv)?;
        check_variant(self.variant)?;
        let device = |tensor| TensorError::Memory { tensor, got: "device", want: "host" };
        Ok(Sound {
            variant: self.variant,
            normalizer: self.variant.normalizer(),
            max_floor: self.variant.max_floor(),
            has_logits_transform: self.variant.has(Hook::LogitsTransform),
            has_denominator: self.variant.has(Hook::Denominator),
            unfinished: false,
            lists: lists_of(self.variant),
            asks_slots: self.variant.has_kv_list() && self.variant.parts().any(|part| part.desc().slots),
            heads: self.heads,
            value_dim: self.values.dim(self.heads) as usize,
            sm_scale: self.sm_scale,
            layout: self.layout,
            q: Rows::new(&self.q).ok_or_else(|| device("q"))?,
            k: Kv::new(["k", "k_scales"], &self.kv.k, &self.kv.scales.k, self.layout)?,
            v: Kv::new(["v", "v_scales"], &self.kv.v, &self.kv.scales.v, self.layout)?,
        })
    }
}

impl Sound<'_> {
    /// The index words of a packed row of a request: query `row / group`, head `kv_head * group + row % group`.
    pub(super) fn row_index(&self, request: usize, kv_head: usize, row: usize) -> RowIndex {
        row_index(self.layout, self.heads, request, kv_head, row)
    }

    /// The index words of a row and a key.
    pub(super) fn logit_index(&self, row: RowIndex, key: usize) -> LogitIndex {
        logit_index(self.layout, row, key)
    }

    /// The index words of a row and the first key of a run.
    pub(super) fn run_index(&self, row: RowIndex, run: &Run) -> LogitIndex {
        LogitIndex { kv_slot: run.slot, ..self.logit_index(row, run.key) }
    }
}
