//! A problem whose tensors are checked, and what it reads: rows of Q, K and V after the transforms of the variant.

use super::key_run::KeyRun;
use super::problem::check_variant;
use super::read::{KvRows, Stored, TensorRows};
use super::{CpuError, Problem};
use crate::batch::{Layout, logit_index, row_index};
use crate::dtype::{Dtype, Dtypes};
use crate::expr::{KvLists, Variant};
use crate::lang::{Hook, KvFormats, KvIndex, LogitIndex, Normalizer, RowIndex};
use crate::spec::Heads;
use crate::tensor::{TensorError, Tokens, check_inputs};

/// A problem whose tensors have been checked.
pub(super) struct CheckedProblem<'a> {
    /// One branch of a union; without a union the whole variant.
    pub(super) variant: &'a Variant,
    pub(super) normalizer: Normalizer,
    pub(super) max_floor: f32,
    pub(super) has_logits_transform: bool,
    pub(super) has_denominator: bool,
    /// Whether the run writes partial states, without sink and output transform.
    pub(super) partial: bool,
    /// Whether a row is computed in one way, however many rows its tile has.
    pub(super) row_invariant: bool,
    pub(super) lists: Option<KvLists<'a>>,
    /// Whether a hook reads the index of a key's block in its list (`kv_slot`).
    pub(super) reads_kv_slot: bool,
    pub(super) heads: Heads,
    /// Elements of a value row and of an output row.
    pub(super) value_dim: usize,
    pub(super) sm_scale: f32,
    pub(super) layout: &'a Layout,
    pub(super) q: TensorRows<'a>,
    /// What elements of queries are multiplied by.
    pub(super) q_scale: f32,
    pub(super) k: KvRows<'a>,
    pub(super) v: KvRows<'a>,
}

impl<'a> Problem<'a> {
    /// The element types of the inputs.
    pub(super) fn dtypes(&self) -> Dtypes {
        // queries of e4m3 are computed in f32, as all are
        let qo = if self.q.dtype() == Dtype::E4m3 { Dtype::F32 } else { self.q.dtype() };
        let types = Dtypes::new(qo, self.kv.k.dtype()).with_queries(self.q.dtype());
        Dtypes { format: self.variant.kv_formats().map(KvFormats::id), ..types }
    }

    /// Checks everything except the work list and the output.
    pub(super) fn checked(&self) -> Result<CheckedProblem<'a>, CpuError> {
        check_inputs(self.layout, Tokens::AtLeast, self.heads, self.head_dim_vo, self.dtypes(), &self.q, &self.kv)?;
        check_variant(self.variant)?;
        let device = |tensor| TensorError::Memory { tensor, got: "device", want: "host" };
        Ok(CheckedProblem {
            variant: self.variant,
            normalizer: self.variant.normalizer(),
            max_floor: self.variant.max_floor(),
            has_logits_transform: self.variant.has(Hook::LogitsTransform),
            has_denominator: self.variant.has(Hook::Denominator),
            partial: false,
            row_invariant: self.work.fixed_splits,
            lists: KvLists::of(self.variant),
            reads_kv_slot: self.variant.has_kv_list() && self.variant.parts().any(|part| part.desc().slots),
            heads: self.heads,
            value_dim: self.head_dim_vo.dim(self.heads) as usize,
            sm_scale: self.sm_scale,
            layout: self.layout,
            q: TensorRows::new(&self.q).ok_or_else(|| device("q"))?,
            q_scale: self.kv.q_scale.on_host(1).ok_or_else(|| device("q_scales"))?[0],
            k: KvRows::new(&self.stored(0), self.layout)?,
            v: KvRows::new(&self.stored(1), self.layout)?,
        })
    }

    /// The keys (0) or the values, and how they are stored.
    fn stored<'s>(&'s self, part: usize) -> Stored<'a, 's> {
        let (kv, keys) = (&self.kv, part == 0);
        // values within keys have their format and side data
        let of = if self.head_dim_vo.shares_keys() { 0 } else { part };
        let dim = if of == 0 { self.heads.head_dim } else { self.head_dim_vo.dim(self.heads) };
        Stored {
            names: if keys { ["k", "k_scales"] } else { ["v", "v_scales"] },
            tensor: if keys { kv.k } else { kv.v },
            format: self.variant.kv_formats().map(|formats| (formats.part(of), dim, kv.sides.part(of))),
            scale: if keys { &kv.scales.k } else { &kv.scales.v },
        }
    }
}

impl CheckedProblem<'_> {
    /// The coordinates of a PackGQA row of a request: query `row / group`, head `kv_head * group + row % group`.
    pub(super) fn row_index(&self, request: usize, kv_head: usize, row: usize) -> RowIndex {
        row_index(self.layout, self.heads, request, kv_head, row)
    }

    /// The coordinates of a row and a key.
    pub(super) fn logit_index(&self, row: RowIndex, key: usize) -> LogitIndex {
        logit_index(self.layout, row, key)
    }

    /// The coordinates of a row and the first key of a run.
    pub(super) fn run_index(&self, row: RowIndex, run: &KeyRun) -> LogitIndex {
        LogitIndex { kv_slot: run.slot, ..self.logit_index(row, run.key) }
    }
}

impl CheckedProblem<'_> {
    /// A key row, after `key_transform`.
    pub(super) fn key(&self, request: usize, key: usize, kv_head: usize, row: &mut [f32]) {
        self.k.read(request, key, kv_head, row);
        self.variant.key_row(row, self.kv_index(request, key, kv_head));
    }

    /// A value row, after `value_transform`.
    pub(super) fn value(&self, request: usize, key: usize, kv_head: usize, row: &mut [f32]) {
        self.v.read(request, key, kv_head, row);
        self.variant.value_row(row, self.kv_index(request, key, kv_head));
    }

    /// The coordinates of a key.
    fn kv_index(&self, request: usize, key: usize, kv_head: usize) -> KvIndex {
        let kv_pos = key as i32;
        KvIndex {
            batch: request as i32,
            kv_pos,
            kv_token: self.layout.kv_indptr()[request] + kv_pos,
            kv_head: kv_head as i32,
            kv_len: self.layout.kv_len(request) as i32,
        }
    }

    /// A query row, after `query_transform`.
    pub(super) fn query(&self, at: RowIndex, row: &mut [f32]) {
        self.q.read(at.qo_token as usize, at.qo_head as usize, row);
        if self.q_scale != 1.0 {
            row.iter_mut().for_each(|x| *x *= self.q_scale);
        }
        self.variant.query_row(row, at);
    }
}
