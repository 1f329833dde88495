//! The fast path: work items times KV heads in parallel, then the merges.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::{
    CpuError, Problem,
    checked_problem::CheckedProblem,
    tile::{TileBuffers, WorkTile},
    write::OutputWriter,
};
use crate::{
    plan::{MergeItem, WorkItem, WorkList},
    state::State,
    tensor::{Out, TensorError, check_run},
};

/// The partial states of one item under one KV head; rows of `o` have `value_dim` elements.
pub(super) struct Partial {
    pub(super) o: Vec<f32>,
    pub(super) states: Vec<State>,
}

/// A run of a flat work list.
struct FlatRun<'a> {
    /// One problem for each branch of a union; one without a union.
    branches: Vec<CheckedProblem<'a>>,
    /// `[slots][kv_heads]`.
    partials: Vec<OnceLock<Partial>>,
    writer: Mutex<OutputWriter<'a>>,
}

/// Computes attention in f32 on all threads of the current rayon pool.
///
/// The result depends on the inputs and the plan, not on the number of threads. Only keys within the requests' pages
/// and lengths are read.
///
/// # Errors
///
/// Tensors of the wrong shape or type, or in device memory; a work list of another batch. Nothing is written then.
pub fn run(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    run_rows(problem, out, false)
}

/// As [`run`], but writes the partial state of each row over the keys of this batch, without sink and
/// `output_transform`: O divided by its own denominator, and its log-sum-exp. Partial states over disjoint keys are
/// merged as [`state`](crate::state) says.
///
/// # Errors
///
/// As [`run`]; also an output without lse.
pub fn run_partial(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    check_lse(&out)?;
    run_rows(problem, out, true)
}

/// A partial state is (O, LSE): the output must have lse.
pub(super) fn check_lse(out: &Out<'_>) -> Result<(), TensorError> {
    if out.lse.is_some() {
        return Ok(());
    }
    Err(TensorError::Absent { tensor: "lse", why: "a partial output cannot be merged without it" })
}

fn run_rows(problem: &Problem<'_>, out: Out<'_>, partial: bool) -> Result<(), CpuError> {
    let mut out = out;
    check_run(problem.layout, problem.heads, problem.head_dim_vo, problem.dtypes(), &problem.q, &problem.kv, &out)?;
    let variants = problem.variant.branches();
    let checked = |variant| Ok(CheckedProblem { partial, ..Problem { variant, ..*problem }.checked()? });
    let branches = variants.iter().map(checked).collect::<Result<_, CpuError>>()?;
    check_work(problem, variants.len())?;
    let kv_heads = problem.heads.kv as usize;
    let run = FlatRun {
        branches,
        partials: (0..problem.work.slots as usize * kv_heads).map(|_| OnceLock::new()).collect(),
        writer: Mutex::new(OutputWriter::new(&mut out)?),
    };
    let widths = [problem.heads.head_dim, problem.head_dim_vo.dim(problem.heads)].map(|dim| dim as usize);
    let items: Vec<_> = problem
        .work
        .branches()
        .zip(&run.branches)
        .flat_map(|(work, branch)| work.items.map(move |i| (i, branch)))
        .collect();
    (0..items.len() * kv_heads).into_par_iter().with_max_len(1).for_each_init(
        || TileBuffers::new(widths),
        |buffers, task| {
            let (item, branch) = items[task / kv_heads];
            run.item(buffers, branch, &problem.work.items[item], task % kv_heads);
        },
    );
    let merges = problem.work.merges.len() * kv_heads;
    (0..merges).into_par_iter().for_each(|task| run.merge(&problem.work.merges[task / kv_heads], task % kv_heads));
    Ok(())
}

/// Checks that the work list belongs to this batch, these heads and the structure of this variant.
fn check_work(problem: &Problem<'_>, branches: usize) -> Result<(), CpuError> {
    let work = problem.work;
    work.check(problem.layout)?;
    let (planned, group) = (work.group, problem.heads.group());
    if planned != group {
        return Err(CpuError::Group { planned, group });
    }
    let say = |branches: usize, lists: bool| match (branches, lists) {
        (_, true) => "lists of keys".to_owned(),
        (1, false) => "no union and no lists".to_owned(),
        (branches, false) => format!("a union of {branches}"),
    };
    let (planned, has) = ((work.branches().len(), work.lists), (branches, problem.variant.has_kv_list()));
    if planned != has {
        return Err(CpuError::Branches { planned: say(planned.0, planned.1), has: say(has.0, has.1) });
    }
    check_slots(work)
}

/// Checks that every slot of a merge is filled by one item of the same tile.
fn check_slots(work: &WorkList) -> Result<(), CpuError> {
    let mut filled = vec![None; work.slots as usize];
    for item in work.items.iter().filter(|item| item.partial >= 0) {
        let slot = &mut filled[item.partial as usize];
        if slot.is_some() {
            return Err(CpuError::Slot { slot: item.partial as u32 });
        }
        *slot = Some((item.request, item.first_row, item.rows));
    }
    for merge in &work.merges {
        for slot in merge.first..merge.first + merge.count {
            if filled[slot as usize] != Some((merge.request, merge.first_row, merge.rows)) {
                return Err(CpuError::Slot { slot: slot as u32 });
            }
        }
    }
    Ok(())
}

impl FlatRun<'_> {
    fn item(&self, buffers: &mut TileBuffers, branch: &CheckedProblem<'_>, item: &WorkItem, kv_head: usize) {
        let tile = WorkTile {
            request: item.request as usize,
            requests: 1,
            kv_head,
            first_row: item.first_row as usize,
            rows: item.rows as usize,
            begin: item.kv_begin as usize,
            end: item.kv_end as usize,
        };
        buffers.run(branch, tile);
        let (value_dim, width) = (branch.value_dim, buffers.value_width());
        let Ok(slot) = usize::try_from(item.partial) else {
            finalize_and_write(&self.writer, branch, tile, (&mut buffers.o, width), &buffers.states);
            return;
        };
        // each slot is filled once: `check_slots` found one item for each
        let _ = self.partials[slot * branch.heads.kv as usize + kv_head].set(copy_partial(buffers, value_dim));
    }

    /// Merges the partial states of one tile in slot order, so that the sum is deterministic.
    fn merge(&self, merge: &MergeItem, kv_head: usize) {
        // sink and output transform are outside of the union: any branch can finalize
        let Some(branch) = self.branches.first() else { return };
        let value_dim = branch.value_dim;
        let (first_row, rows) = (merge.first_row as usize, merge.rows as usize);
        let tile =
            WorkTile { request: merge.request as usize, requests: 1, kv_head, first_row, rows, begin: 0, end: 0 };
        let mut o = vec![0f32; tile.rows * value_dim];
        let mut states = vec![State::EMPTY; tile.rows];
        for slot in merge.first..merge.first + merge.count {
            let index = slot as usize * branch.heads.kv as usize + kv_head;
            let Some(partial) = self.partials[index].get() else { continue };
            merge_rows(&mut o, &mut states, (&partial.o, &partial.states), value_dim);
        }
        finalize_and_write(&self.writer, branch, tile, (&mut o, value_dim), &states);
    }
}

/// Merges the partial states of some rows into `o` and `states`; rows have `value_dim` elements.
pub(super) fn merge_rows(o: &mut [f32], states: &mut [State], part: (&[f32], &[State]), value_dim: usize) {
    let rows = o.chunks_exact_mut(value_dim).zip(part.0.chunks_exact(value_dim));
    for ((o, part), (state, other)) in rows.zip(states.iter_mut().zip(part.1)) {
        let merged = state.merge(*other);
        *state = merged.state;
        o.iter_mut().zip(part).for_each(|(x, y)| *x = *x * merged.first + *y * merged.second);
    }
}

/// Copies the partial states of the tile that was computed last.
pub(super) fn copy_partial(buffers: &TileBuffers, value_dim: usize) -> Partial {
    let rows = buffers.o.chunks_exact(buffers.value_width());
    Partial { o: rows.flat_map(|row| &row[..value_dim]).copied().collect(), states: buffers.states.clone() }
}

/// Finalizes the rows of a tile, which are `width` elements apart, and writes them. The writer is locked while one tile
/// is written, which is short compared with computing it.
pub(super) fn finalize_and_write(
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
