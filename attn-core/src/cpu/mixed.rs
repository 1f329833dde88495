//! The fast path over mixed lists: items times KV heads in parallel, then the merges.

use std::sync::{Mutex, OnceLock};

use rayon::prelude::*;

use super::{
    CpuError, Problem,
    checked_problem::CheckedProblem,
    run::{Partial, check_lse, copy_partial, finalize_and_write, merge_rows},
    tile::{TileBuffers, WorkTile},
    write::OutputWriter,
};
use crate::{
    plan::{MixedItem, MixedList, MixedMerge},
    state::State,
    tensor::{Out, check_run},
};

struct MixedRun<'a> {
    checked: CheckedProblem<'a>,
    /// `[partial_rows]`: the item that writes a partial row, and the row within that item.
    partial_sources: Vec<(u32, u32)>,
    /// `[items][kv_heads]`; empty for items that write the output.
    partials: Vec<OnceLock<Partial>>,
    writer: Mutex<OutputWriter<'a>>,
}

/// Computes attention along a mixed list: decode and prefill requests, and cascades, in which an item has rows of
/// several requests against keys that they share. Each shared key is read and transformed once for all of them.
///
/// The result depends on the inputs and the list, not on the number of threads. Only keys within the requests' pages
/// and lengths are read.
///
/// # Errors
///
/// As [`run`](super::run); also a variant that mixed lists do not support ([`MixedList::supports`]).
pub fn run_mixed(problem: &Problem<'_>, work: &MixedList, out: Out<'_>) -> Result<(), CpuError> {
    run_rows(problem, work, out, false)
}

/// As [`run_mixed`], but writes partial states: see [`run_partial`](super::run_partial).
///
/// # Errors
///
/// As [`run_mixed`]; also an output without lse.
pub fn run_mixed_partial(problem: &Problem<'_>, work: &MixedList, out: Out<'_>) -> Result<(), CpuError> {
    check_lse(&out)?;
    run_rows(problem, work, out, true)
}

fn run_rows(problem: &Problem<'_>, work: &MixedList, out: Out<'_>, partial: bool) -> Result<(), CpuError> {
    let mut out = out;
    check_run(problem.layout, problem.heads, problem.head_dim_vo, problem.dtypes(), &problem.q, &problem.kv, &out)?;
    let checked = CheckedProblem { partial, ..problem.checked()? };
    MixedList::supports(problem.variant, problem.layout)?;
    let (planned, group) = (work.group, problem.heads.group());
    if planned != group {
        return Err(CpuError::Group { planned, group });
    }
    work.check(problem.layout)?;
    let items: Vec<&MixedItem> = work.items().collect();
    let mut partial_sources = vec![(0, 0); work.partial_rows as usize];
    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.partial >= 0) {
        let rows = partial_sources[item.partial as usize..][..item.rows as usize].iter_mut();
        rows.enumerate().for_each(|(row, source)| *source = (index as u32, row as u32));
    }
    let kv_heads = problem.heads.kv as usize;
    let run = MixedRun {
        checked,
        partial_sources,
        partials: (0..items.len() * kv_heads).map(|_| OnceLock::new()).collect(),
        writer: Mutex::new(OutputWriter::new(&mut out)?),
    };
    let widths = [problem.heads.head_dim, problem.head_dim_vo.dim(problem.heads)].map(|dim| dim as usize);
    (0..items.len() * kv_heads)
        .into_par_iter()
        .with_max_len(1)
        .for_each_init(|| TileBuffers::new(widths), |buffers, task| run.item(buffers, task, items[task / kv_heads]));
    let merges = work.merges.len() * kv_heads;
    (0..merges).into_par_iter().for_each(|task| run.merge(work, &work.merges[task / kv_heads], task % kv_heads));
    Ok(())
}

impl MixedRun<'_> {
    fn item(&self, buffers: &mut TileBuffers, task: usize, item: &MixedItem) {
        let tile = WorkTile {
            request: item.request as usize,
            requests: item.requests as usize,
            kv_head: task % self.checked.heads.kv as usize,
            first_row: item.first_row as usize,
            rows: item.rows as usize,
            begin: item.kv_begin as usize,
            end: item.kv_end as usize,
        };
        buffers.run(&self.checked, tile);
        if item.partial < 0 {
            let width = buffers.value_width();
            finalize_and_write(&self.writer, &self.checked, tile, (&mut buffers.o, width), &buffers.states);
        } else {
            // each item runs once
            let _ = self.partials[task].set(copy_partial(buffers, self.checked.value_dim));
        }
    }

    /// Merges the partial states of a unit of rows in the order of keys, so that the sum is deterministic.
    fn merge(&self, work: &MixedList, merge: &MixedMerge, kv_head: usize) {
        let value_dim = self.checked.value_dim;
        let (first_row, rows) = (merge.first_row as usize, merge.rows as usize);
        let tile =
            WorkTile { request: merge.request as usize, requests: 1, kv_head, first_row, rows, begin: 0, end: 0 };
        let mut o = vec![0f32; rows * value_dim];
        let mut states = vec![State::EMPTY; rows];
        for &part in &work.merge_parts[merge.first as usize..][..merge.count as usize] {
            let (item, row) = self.partial_sources[part as usize];
            let Some(partial) = self.partials[item as usize * self.checked.heads.kv as usize + kv_head].get() else {
                continue;
            };
            let of_rows = row as usize..row as usize + rows;
            let part = (&partial.o[of_rows.start * value_dim..of_rows.end * value_dim], &partial.states[of_rows]);
            merge_rows(&mut o, &mut states, part, value_dim);
        }
        finalize_and_write(&self.writer, &self.checked, tile, (&mut o, value_dim), &states);
    }
}
