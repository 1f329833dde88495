//! The fast path: work items times KV heads in parallel, then the merges.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::checked_problem::CheckedProblem;
use super::tile::{TileBuffers, WorkTile};
use super::write::OutputWriter;
use super::{CpuError, Problem, threads};
use crate::plan::{MergeItem, WorkList};
use crate::state::State;
use crate::tensor::{Out, Tokens, check_run};

/// The partial states of one item under one KV head; rows of `o` have `value_dim` elements.
struct Partial {
    o: Vec<f32>,
    states: Vec<State>,
}

/// A run of a work list.
struct ListRun<'a> {
    work: &'a WorkList,
    /// One problem for each branch of a union; one without a union.
    branches: Vec<CheckedProblem<'a>>,
    /// `[partial_rows]`: the item that writes a partial row, and the row within that item.
    partial_sources: Vec<(u32, u32)>,
    /// `[items][kv_heads]`; empty for items that write the output.
    partials: Vec<OnceLock<Partial>>,
    writer: Mutex<OutputWriter<'a>>,
}

/// Computes attention in f32 on all threads of the current rayon pool; in a child of a fork, which has none of them, on
/// the thread that calls.
///
/// An item of a cascade has rows of several requests. Each key that they share is read and transformed once for all of
/// them.
///
/// The result depends on the inputs and the work list, not on the number of threads. Only keys within the requests'
/// pages and lengths are read.
///
/// # Errors
///
/// Tensors of the wrong shape or type, or in device memory; a work list of another batch or variant. Nothing is written
/// then.
pub fn run(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    run_rows(problem, out, false)
}

/// Writes the partial state of each row over the keys of this batch, without sink and `output_transform`: O divided by
/// its own denominator, and its log-sum-exp. Partial states over disjoint keys are merged as [`state`](crate::state)
/// says.
///
/// # Errors
///
/// An output without lse; the errors of [`run`].
pub fn run_partial(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    out.check_partial()?;
    run_rows(problem, out, true)
}

fn run_rows(problem: &Problem<'_>, out: Out<'_>, partial: bool) -> Result<(), CpuError> {
    let &Problem { layout, heads, head_dim_vo, ref q, ref kv, .. } = problem;
    let dtypes = problem.dtypes().with_output(out.o.dtype());
    check_run(layout, Tokens::AtLeast, heads, head_dim_vo, dtypes, q, kv, &out)?;
    let variants = problem.variant.branches();
    let checked = |variant| Ok(CheckedProblem { partial, ..Problem { variant, ..*problem }.checked()? });
    let branches: Vec<_> = variants.iter().map(checked).collect::<Result<_, CpuError>>()?;
    check_work(problem, variants.len())?;
    let (work, kv_heads) = (problem.work, problem.heads.kv as usize);
    let run = ListRun {
        work,
        branches,
        partial_sources: partial_sources(work),
        partials: (0..work.items.len() * kv_heads).map(|_| OnceLock::new()).collect(),
        writer: Mutex::new(OutputWriter::new(out)?),
    };
    let widths = [problem.heads.head_dim, problem.head_dim_vo.dim(problem.heads)].map(|dim| dim as usize);
    let items: Vec<_> = work.parts.iter().flat_map(|part| part.items.clone().map(|_| part.branch as usize)).collect();
    threads::for_each(
        items.len() * kv_heads,
        || TileBuffers::new(widths),
        |buffers, task| run.item(buffers, task, &run.branches[items[task / kv_heads]]),
    );
    let merge = |(): &mut (), task| run.merge(&work.merges[task / kv_heads], task % kv_heads);
    threads::for_each(work.merges.len() * kv_heads, || (), merge);
    Ok(())
}

/// Checks that the work list belongs to this batch, these heads and the structure of this variant.
fn check_work(problem: &Problem<'_>, branches: usize) -> Result<(), CpuError> {
    let work = problem.work;
    if work.is_mixed() {
        WorkList::supports(problem.variant, problem.layout.has_levels())?;
    }
    let positions = (problem.layout.has_levels() && !work.is_mixed()).then(|| problem.layout.positions());
    let (planned, group) = (work.group, problem.heads.group());
    if planned != group {
        return Err(CpuError::Group { planned, group });
    }
    work.check(positions.as_ref().unwrap_or(problem.layout))?;
    let say = |branches: usize, lists: bool| match (branches, lists) {
        (_, true) => "lists of keys".to_owned(),
        (1, false) => "no union and no lists".to_owned(),
        (branches, false) => format!("a union of {branches}"),
    };
    let (planned, has) = ((work.branches(), work.lists), (branches, problem.variant.has_kv_list()));
    if planned != has {
        return Err(CpuError::Branches { planned: say(planned.0, planned.1), has: say(has.0, has.1) });
    }
    Ok(())
}

/// The item that writes each partial row, and the row within that item.
fn partial_sources(work: &WorkList) -> Vec<(u32, u32)> {
    let mut sources = vec![(0, 0); work.partial_rows as usize];
    for (item, index) in work.items.iter().zip(0u32..).filter(|(item, _)| item.partial >= 0) {
        let rows = sources[item.partial as usize..][..item.rows as usize].iter_mut();
        rows.zip(0u32..).for_each(|(source, row)| *source = (index, row));
    }
    sources
}

impl ListRun<'_> {
    /// Runs the item of a task under one KV head.
    fn item(&self, buffers: &mut TileBuffers, task: usize, branch: &CheckedProblem<'_>) {
        let kv_heads = branch.heads.kv as usize;
        let item = &self.work.items[task / kv_heads];
        let tile = WorkTile {
            request: item.request as usize,
            requests: item.requests as usize,
            kv_head: task % kv_heads,
            first_row: item.first_row as usize,
            rows: item.rows as usize,
            begin: item.kv_begin as usize,
            end: item.kv_end as usize,
        };
        buffers.run(branch, tile);
        if item.partial < 0 {
            let width = buffers.value_width();
            finalize_and_write(&self.writer, branch, tile, (&mut buffers.o, width), &buffers.states);
        } else {
            // each item runs once
            let _ = self.partials[task].set(copy_partial(buffers, branch.value_dim));
        }
    }

    /// Merges the partial states of some rows of one request in the order of keys, so that the sum is deterministic.
    fn merge(&self, merge: &MergeItem, kv_head: usize) {
        // sink and output transform are outside of the union: any branch can finalize
        let Some(branch) = self.branches.first() else { return };
        let value_dim = branch.value_dim;
        let (first_row, rows) = (merge.first_row as usize, merge.rows as usize);
        let tile =
            WorkTile { request: merge.request as usize, requests: 1, kv_head, first_row, rows, begin: 0, end: 0 };
        let mut o = vec![0f32; rows * value_dim];
        let mut states = vec![State::EMPTY; rows];
        for state in self.work.states_of(merge) {
            let (item, row) = self.partial_sources[state as usize];
            let index = item as usize * branch.heads.kv as usize + kv_head;
            let Some(partial) = self.partials[index].get() else { continue };
            let held = row as usize..row as usize + rows;
            let part = (&partial.o[held.start * value_dim..held.end * value_dim], &partial.states[held]);
            merge_rows(&mut o, &mut states, part, value_dim);
        }
        finalize_and_write(&self.writer, branch, tile, (&mut o, value_dim), &states);
    }
}

/// Merges the partial states of some rows into `o` and `states`; rows have `value_dim` elements.
fn merge_rows(o: &mut [f32], states: &mut [State], part: (&[f32], &[State]), value_dim: usize) {
    let rows = o.chunks_exact_mut(value_dim).zip(part.0.chunks_exact(value_dim));
    for ((o, part), (state, other)) in rows.zip(states.iter_mut().zip(part.1)) {
        let merged = state.merge(*other);
        *state = merged.state;
        o.iter_mut().zip(part).for_each(|(x, y)| *x = *x * merged.first + *y * merged.second);
    }
}

/// Copies the partial states of the tile that was computed last.
fn copy_partial(buffers: &TileBuffers, value_dim: usize) -> Partial {
    let rows = buffers.o.chunks_exact(buffers.value_width());
    Partial { o: rows.flat_map(|row| &row[..value_dim]).copied().collect(), states: buffers.states.clone() }
}

/// Finalizes the rows of a tile, which are `width` elements apart, and writes them. The writer is locked while one tile
/// is written, which is short compared with computing it.
fn finalize_and_write(
    writer: &Mutex<OutputWriter<'_>>,
    branch: &CheckedProblem<'_>,
    tile: WorkTile,
    (o, width): (&mut [f32], usize),
    states: &[State],
) {
    let value_dim = branch.value_dim;
    let at = |i| tile.row(branch, i);
    let rows = o.chunks_exact_mut(width).zip(states).enumerate();
    let lse: Vec<f32> = rows.map(|(i, (row, state))| branch.finalize(*state, &mut row[..value_dim], at(i))).collect();
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    for (i, (row, lse)) in o.chunks_exact(width).zip(lse).enumerate() {
        writer.write(at(i), &row[..value_dim], lse);
    }
}
