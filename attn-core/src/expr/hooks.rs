//! The hooks of a composition on the CPU. Coordinates and tile rows are as in [`ErasedVariant`].
//!
//! A `union` only masks here. Its other hooks are those of [`Variant::branches`], which are variants of their own.

use super::class::clamp_position;
use super::tree::{Node, Variant};
use crate::lang::{ErasedVariant, Hook, KvIndex, LogitIndex, Normalizer, RowIndex, RowState};

impl Variant {
    /// Transforms a query row, part by part.
    pub fn query_row(&self, q: &mut [f32], at: RowIndex) {
        self.nodes().iter().for_each(|node| match node {
            Node::Part(part) => part.query_row(q, at),
            Node::Remap { map, inner } => {
                map.query_row(q, at);
                inner.query_row(q, mapped_row(&**map, at));
            }
            Node::PerHead(heads) => {
                if let Some(branch) = heads.branch(at.qo_head) {
                    branch.query_row(q, at);
                }
            }
            Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
        });
    }

    /// Transforms a key row, part by part, unless keys are stored transformed.
    pub fn key_row(&self, k: &mut [f32], at: KvIndex) {
        if self.kv.is_stored(Hook::KeyTransform) {
            return;
        }
        self.nodes().iter().for_each(|node| match node {
            Node::Part(part) => part.key_row(k, at),
            Node::Remap { map, inner } => {
                map.key_row(k, at);
                inner.key_row(k, mapped_key(&**map, at));
            }
            Node::PerHead(heads) => {
                if let Some(branch) = heads.kv_branch(at.kv_head) {
                    branch.key_row(k, at);
                }
            }
            Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
        });
    }

    /// Transforms a value row, part by part, unless values are stored transformed.
    pub fn value_row(&self, v: &mut [f32], at: KvIndex) {
        if self.kv.is_stored(Hook::ValueTransform) {
            return;
        }
        self.nodes().iter().for_each(|node| match node {
            Node::Part(part) => part.value_row(v, at),
            Node::Remap { map, inner } => {
                map.value_row(v, at);
                inner.value_row(v, mapped_key(&**map, at));
            }
            Node::PerHead(heads) => {
                if let Some(branch) = heads.kv_branch(at.kv_head) {
                    branch.value_row(v, at);
                }
            }
            Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
        });
    }

    /// Transforms the logits of a tile row, part by part.
    pub fn logits_tile(&self, logits: &mut [f32], at: LogitIndex) {
        for node in self.nodes().iter().filter(|node| node.has(Hook::LogitsTransform)) {
            match node {
                Node::Part(part) => part.logits_tile(logits, at),
                Node::Remap { map, inner } => {
                    if map.desc().has(Hook::LogitsTransform) {
                        map.logits_tile(logits, at);
                    }
                    for_each_run(&**map, at, logits.len(), |from, to, at| inner.logits_tile(&mut logits[from..to], at));
                }
                Node::PerHead(heads) => {
                    if let Some(branch) = heads.branch(at.qo_head) {
                        branch.logits_tile(logits, at);
                    }
                }
                Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
            }
        }
    }

    /// Clears `keep[i]` where the composition does not attend.
    pub fn mask_tile(&self, keep: &mut [bool], at: LogitIndex) {
        for node in self.nodes().iter().filter(|node| node.has(Hook::LogitsMask)) {
            match node {
                Node::Part(part) => part.mask_tile(keep, at),
                Node::Or(masks) | Node::Union(masks) => any_of(masks, keep, at),
                Node::Not(mask) | Node::Except(mask) => in_chunks(keep, at, |keep, attended, at| {
                    mask.mask_tile(attended, at);
                    keep.iter_mut().zip(attended).for_each(|(keep, attended)| *keep &= !*attended);
                }),
                Node::Remap { map, inner } => {
                    if map.desc().has(Hook::LogitsMask) {
                        map.mask_tile(keep, at);
                    }
                    for_each_run(&**map, at, keep.len(), |from, to, at| inner.mask_tile(&mut keep[from..to], at));
                }
                Node::PerHead(heads) => {
                    if let Some(branch) = heads.branch(at.qo_head) {
                        branch.mask_tile(keep, at);
                    }
                }
            }
        }
    }

    /// The part that replaces the softmax of a query head.
    fn normalizing(&self, qo_head: i32) -> Normalizing<'_> {
        match self.nodes().iter().find(|node| node.normalizer() != Normalizer::Softmax) {
            Some(Node::Part(part)) => Normalizing::Part(&**part),
            Some(Node::Remap { map, .. }) if map.normalizer() != Normalizer::Softmax => Normalizing::Part(&**map),
            Some(Node::Remap { map, inner }) => Normalizing::Remapped(&**map, inner),
            Some(Node::PerHead(heads)) => {
                heads.branch(qo_head).map_or(Normalizing::Nowhere, |branch| branch.normalizing(qo_head))
            }
            _ => Normalizing::Nowhere,
        }
    }

    /// Turns logits into weights in place: with the `weight` hook of the part that has a normaliser, else as `exp(logit
    /// - row_max)`.
    pub fn weight_tile(&self, logits: &mut [f32], row_max: f32, at: LogitIndex) {
        match self.normalizing(at.qo_head) {
            Normalizing::Part(part) => part.weight_tile(logits, row_max, at),
            Normalizing::Remapped(map, inner) => for_each_run(map, at, logits.len(), |from, to, at| {
                inner.weight_tile(&mut logits[from..to], row_max, at);
            }),
            Normalizing::Nowhere => logits.iter_mut().for_each(|logit| *logit = (*logit - row_max).exp()),
        }
    }

    /// The terms of the denominator. `denominators` holds logits on entry, `weights` the result of
    /// [`Self::weight_tile`] for them. Without a part that has a normaliser the terms are the weights.
    pub fn denominator_tile(&self, denominators: &mut [f32], weights: &[f32], row_max: f32, at: LogitIndex) {
        match self.normalizing(at.qo_head) {
            Normalizing::Part(part) => part.denominator_tile(denominators, weights, row_max, at),
            Normalizing::Remapped(map, inner) => for_each_run(map, at, denominators.len(), |from, to, at| {
                inner.denominator_tile(&mut denominators[from..to], &weights[from..to], row_max, at);
            }),
            Normalizing::Nowhere => denominators.copy_from_slice(weights),
        }
    }

    /// The initial row max: `MAX_FLOOR` of the part that has a normaliser, else `-inf`.
    #[must_use]
    pub fn max_floor(&self) -> f32 {
        // any head will do: all branches of a `per_head` have one floor (`compose/check.rs`)
        match self.normalizing(0) {
            Normalizing::Part(part) => part.max_floor(),
            Normalizing::Remapped(_, inner) => inner.max_floor(),
            Normalizing::Nowhere => f32::NEG_INFINITY,
        }
    }

    /// The logit of all sinks together: the log-sum-exp of their logits.
    #[must_use]
    pub fn sink_logit(&self, at: RowIndex) -> f32 {
        let of_part = |part: &dyn ErasedVariant, at| match part.desc().has(Hook::SinkLogit) {
            true => part.sink_logit(at),
            false => f32::NEG_INFINITY,
        };
        self.nodes().iter().filter(|node| node.has(Hook::SinkLogit)).fold(f32::NEG_INFINITY, |all, node| {
            let one = match node {
                Node::Part(part) => of_part(&**part, at),
                Node::Remap { map, inner } => {
                    log_add_exp(of_part(&**map, at), inner.sink_logit(mapped_row(&**map, at)))
                }
                Node::PerHead(heads) => {
                    heads.branch(at.qo_head).map_or(f32::NEG_INFINITY, |branch| branch.sink_logit(at))
                }
                Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => f32::NEG_INFINITY,
            };
            log_add_exp(all, one)
        })
    }

    /// Transforms the normalised output row, part by part.
    pub fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex) {
        self.nodes().iter().for_each(|node| match node {
            Node::Part(part) => part.output_row(o, state, at),
            Node::Remap { map, inner } => {
                map.output_row(o, state, at);
                inner.output_row(o, state, mapped_row(&**map, at));
            }
            Node::PerHead(heads) => {
                if let Some(branch) = heads.branch(at.qo_head) {
                    branch.output_row(o, state, at);
                }
            }
            Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
        });
    }
}

/// Where the part that replaces the softmax is.
enum Normalizing<'a> {
    /// It sees positions as they are.
    Part(&'a dyn ErasedVariant),
    /// Among the inner parts of a `remap`, whose map is the first.
    Remapped(&'a dyn ErasedVariant, &'a Variant),
    Nowhere,
}

/// `ln(exp(a) + exp(b))`.
fn log_add_exp(a: f32, b: f32) -> f32 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// The row as the inner parts of `remap` see it.
fn mapped_row(map: &dyn ErasedVariant, at: RowIndex) -> RowIndex {
    RowIndex { qo_pos: clamp_position(map.remap_qo_pos(at)), ..at }
}

/// The key as the inner parts of `remap` see it.
fn mapped_key(map: &dyn ErasedVariant, at: KvIndex) -> KvIndex {
    KvIndex { kv_pos: clamp_position(map.remap_kv_pos(at)), ..at }
}

/// The `i`-th logit after `at`.
fn nth_after(at: LogitIndex, i: usize) -> LogitIndex {
    let i = i as i32;
    LogitIndex { kv_pos: at.kv_pos.wrapping_add(i), kv_token: at.kv_token.wrapping_add(i), ..at }
}

/// Splits a tile row where mapped positions are not consecutive, and calls `f(from, to, first)`; `first` is the logit
/// at `from` as the inner parts see it.
fn for_each_run(map: &dyn ErasedVariant, at: LogitIndex, len: usize, mut f: impl FnMut(usize, usize, LogitIndex)) {
    let row = mapped_row(map, at.row);
    let mapped = |i: usize| {
        let LogitIndex { kv_pos, kv_token, .. } = nth_after(at, i);
        mapped_key(map, KvIndex { batch: at.batch, kv_pos, kv_token, kv_head: at.kv_head, kv_len: at.kv_len }).kv_pos
    };
    let mut next = if len > 0 { mapped(0) } else { 0 };
    let mut from = 0;
    while from < len {
        let (first, mut to) = (next, from + 1);
        while to < len {
            next = mapped(to);
            if next != first.wrapping_add((to - from) as i32) {
                break;
            }
            to += 1;
        }
        f(from, to, LogitIndex { row, kv_pos: first, ..nth_after(at, from) });
        from = to;
    }
}

/// Keys per chunk under `or` and `not`.
const CHUNK: usize = 128;

/// Calls `f(keep, attended, first logit)` for chunks of a tile row; `attended` is all true.
fn in_chunks(keep: &mut [bool], at: LogitIndex, mut f: impl FnMut(&mut [bool], &mut [bool], LogitIndex)) {
    for (i, keep) in keep.chunks_mut(CHUNK).enumerate() {
        let mut attended = [true; CHUNK];
        let len = keep.len();
        f(keep, &mut attended[..len], nth_after(at, i * CHUNK));
    }
}

/// Clears `keep[i]` where none of the masks attends.
fn any_of(masks: &[Variant], keep: &mut [bool], at: LogitIndex) {
    in_chunks(keep, at, |keep, attended, at| {
        let mut any = [false; CHUNK];
        for mask in masks {
            attended.fill(true);
            mask.mask_tile(attended, at);
            any.iter_mut().zip(&*attended).for_each(|(any, attended)| *any |= attended);
        }
        keep.iter_mut().zip(any).for_each(|(keep, any)| *keep &= any);
    });
}
