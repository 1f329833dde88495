//! The working path: work items times KV heads in parallel, then the merges.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::{
    CpuError, Problem,
    problem::Sound,
    tile::{Scratch, Span},
    write::Writer,
};
use crate::{
    plan::{MergeItem, WorkItem, WorkList},
    state::State,
    tensor::{Out, TensorError, check_run},
};

/// The unfinished states of one item and one KV head: rows of value_dim.
pub(super) struct Partial {
    pub(super) o: Vec<f32>,
    pub(super) states: Vec<State>,
}

/// One run.
struct Run<'a> {
    /// One for each arm of a union; one without.
    arms: Vec<Sound<'a>>,
    /// `[slots][kv_heads]`.
    partials: Vec<OnceLock<Partial>>,
    writer: Mutex<Writer<'a>>,
}

/// Computes attention, in f32, on all threads of the current rayon pool.
///
/// The result depends on the inputs and the plan, not on the number of threads. Nothing outside the requests' pages
/// and lengths is read.
///
/// # Errors
///
/// Tensors that do not fit or are in device memory, work of another batch, hooks that are not supported; nothing is
/// written then.
pub fn run(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    run_rows(problem, out, false)
}

/// As [`run`], of rows that are left unfinished: neither sink nor `output_transform`. What is written is the state of each row over the keys of this
/// batch, o divided by its own denominator and its log-sum-exp, which merges with states over other keys: see [`state`](crate::state).
///
/// # Errors
///
/// As [`run`]; and an output without lse.
pub fn run_unfinished(problem: &Problem<'_>, out: Out<'_>) -> Result<(), CpuError> {
    check_lse(&out)?;
    run_rows(problem, out, true)
}

/// An unfinished row has its log-sum-exp beside it.
pub(super) fn check_lse(out: &Out<'_>) -> Result<(), TensorError> {
    if out.lse.is_some() {
        return Ok(());
    }
    Err(TensorError::Absent { tensor: "lse", why: "an unfinished row is of no use without it" })
}

fn run_rows(problem: &Problem<'_>, out: Out<'_>, unfinished: bool) -> Result<(), CpuError> {
    let mut out = out;
    check_run(problem.layout, problem.heads, problem.values, problem.dtypes(), &problem.q, &problem.kv, &out)?;
    let variants = problem.variant.arms();
    let sound = |variant| Ok(Sound { unfinished, ..Problem { variant, ..*problem }.sound()? });
    let arms = variants.iter().map(sound).collect::<Result<_, CpuError>>()?;
    check_work(problem, variants.len())?;
    let kv_heads = problem.heads.kv as usize;
    let run = Run {
        arms,
        partials: (0..problem.work.slots as usize * kv_heads).map(|_| OnceLock::new()).collect(),
        writer: Mutex::new(Writer::new(&mut out)?),
    };
    let widths = [problem.heads.head_dim, problem.values.dim(problem.heads)].map(|dim| dim as usize);
    let items: Vec<_> =
        problem.work.arms().zip(&run.arms).flat_map(|(work, arm)| work.items.map(move |i| (i, arm))).collect();
    (0..items.len() * kv_heads).into_par_iter().with_max_len(1).for_each_init(
        || Scratch::new(widths),
        |scratch, task| {
            let (item, arm) = items[task / kv_heads];
            run.item(scratch, arm, &problem.work.items[item], task % kv_heads);
        },
    );
    let merges = problem.work.merges.len() * kv_heads;
    (0..merges).into_par_iter().for_each(|task| run.merge(&problem.work.merges[task / kv_heads], task % kv_heads));
    Ok(())
}

/// The work is of this batch, these heads, and a variant like this one.
fn check_work(problem: &Problem<'_>, arms: usize) -> Result<(), CpuError> {
    let work = problem.work;
    work.check(problem.layout)?;
    let (planned, group) = (work.group, problem.heads.group());
    if planned != group {
        return Err(CpuError::Group { planned, group });
    }
    let say = |arms: usize, lists: bool| match (arms, lists) {
        (_, true) => "lists of keys".to_owned(),
        (1, false) => "no union and no lists".to_owned(),
        (arms, false) => format!("a union of {arms}"),
    };
    let (planned, has) = ((work.arms().len(), work.lists), (arms, problem.variant.has_kv_list()));
    if planned != has {
        return Err(CpuError::Arms { planned: say(planned.0, planned.1), has: say(has.0, has.1) });
    }
    check_slots(work)
}

/// Every slot that a merge reads is filled by one item of the same tile.
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

impl Run<'_> {
    fn item(&self, scratch: &mut Scratch, arm: &Sound<'_>, item: &WorkItem, kv_head: usize) {
        let span = Span {
            request: item.request as usize,
            requests: 1,
            kv_head,
            first_row: item.first_row as usize,
            rows: item.rows as usize,
            begin: item.kv_begin as usize,
            end: item.kv_end as usize,
        };
        scratch.run(arm, span);
        let (value_dim, width) = (arm.value_dim, scratch.value_width());
        let Ok(slot) = usize::try_from(item.partial) else {
            write(&self.writer, arm, span, (&mut scratch.o, width), &scratch.states);
            return;
        };
        // a slot is filled once: `check_slots` found one item for each
        let _ = self.partials[slot * arm.heads.kv as usize + kv_head].set(partial_of(scratch, value_dim));
    }

    /// Merges the partial states of one tile in slot order, so that the sum is the same every time.
    fn merge(&self, merge: &MergeItem, kv_head: usize) {
        // sink and output transform come from outside of a union: any arm finishes
        let Some(arm) = self.arms.first() else { return };
        let value_dim = arm.value_dim;
        let (first_row, rows) = (merge.first_row as usize, merge.rows as usize);
        let span = Span { request: merge.request as usize, requests: 1, kv_head, first_row, rows, begin: 0, end: 0 };
        let mut o = vec![0f32; span.rows * value_dim];
        let mut states = vec![State::EMPTY; span.rows];
        for slot in merge.first..merge.first + merge.count {
            let index = slot as usize * arm.heads.kv as usize + kv_head;
            let Some(partial) = self.partials[index].get() else { continue };
            merge_rows(&mut o, &mut states, (&partial.o, &partial.states), value_dim);
        }
        write(&self.writer, arm, span, (&mut o, value_dim), &states);
    }
}

/// Adds the states of rows of `value_dim` to others.
pub(super) fn merge_rows(o: &mut [f32], states: &mut [State], part: (&[f32], &[State]), value_dim: usize) {
    let rows = o.chunks_exact_mut(value_dim).zip(part.0.chunks_exact(value_dim));
    for ((o, part), (state, other)) in rows.zip(states.iter_mut().zip(part.1)) {
        let merged = state.merge(*other);
        *state = merged.state;
        o.iter_mut().zip(part).for_each(|(x, y)| *x = *x * merged.first + *y * merged.second);
    }
}

/// The unfinished states of what was computed last.
pub(super) fn partial_of(scratch: &Scratch, value_dim: usize) -> Partial {
    let rows = scratch.o.chunks_exact(scratch.value_width());
    Partial { o: rows.flat_map(|row| &row[..value_dim]).copied().collect(), states: scratch.states.clone() }
}

/// Finishes the rows of a tile, which lie `width` apart, and writes them. The writer is held for the time of writing one tile: short against computing it.
pub(super) fn write(
    writer: &Mutex<Writer<'_>>,
    arm: &Sound<'_>,
    span: Span,
    (o, width): (&mut [f32], usize),
    states: &[State],
) {
    let value_dim = arm.value_dim;
    let at = |i| span.row(arm, i);
    let rows = o.chunks_exact_mut(width).zip(states).enumerate();
    let lse: Vec<f32> = rows.map(|(i, (row, state))| arm.finish(*state, &mut row[..value_dim], at(i))).collect();
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    for (i, (row, lse)) in o.chunks_exact(width).zip(lse).enumerate() {
        writer.write(at(i), &row[..value_dim], lse);
    }
}
