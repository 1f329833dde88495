//! The working path over mixed lists: items times KV heads in parallel, then the merges.

use std::sync::{Mutex, OnceLock};

use rayon::prelude::*;

use super::{
    CpuError, Problem,
    problem::Sound,
    run::{Partial, check_lse, merge_rows, partial_of, write},
    tile::{Scratch, Span},
    write::Writer,
};
use crate::{
    plan::{MixedItem, MixedList, MixedMerge},
    state::State,
    tensor::{Out, check_run},
};

struct Run<'a> {
    sound: Sound<'a>,
    /// The item, and the row in it, of each partial row.
    places: Vec<(u32, u32)>,
    /// `[items][kv_heads]`; of items that write the output nothing.
    partials: Vec<OnceLock<Partial>>,
    writer: Mutex<Writer<'a>>,
}

/// Computes attention along a mixed list: of requests of few rows and of many, and of cascades, whose items have rows of several requests against
/// keys that these share, each read and rewritten once for all of them.
///
/// The result depends on the inputs and the list, not on the number of threads. Nothing outside the requests' pages and lengths is read.
///
/// # Errors
///
/// As [`run`](super::run); also a variant that has no mixed lists ([`MixedList::supports`]).
pub fn run_mixed(problem: &Problem<'_>, work: &MixedList, out: Out<'_>) -> Result<(), CpuError> {
    run_rows(problem, work, out, false)
}

/// As [`run_mixed`], of rows that are left unfinished: see [`run_unfinished`](super::run_unfinished).
///
/// # Errors
///
/// As [`run_mixed`]; and an output without lse.
pub fn run_mixed_unfinished(problem: &Problem<'_>, work: &MixedList, out: Out<'_>) -> Result<(), CpuError> {
    check_lse(&out)?;
    run_rows(problem, work, out, true)
}

fn run_rows(problem: &Problem<'_>, work: &MixedList, out: Out<'_>, unfinished: bool) -> Result<(), CpuError> {
    let mut out = out;
    check_run(problem.layout, problem.heads, problem.values, problem.dtypes(), &problem.q, &problem.kv, &out)?;
    let sound = Sound { unfinished, ..problem.sound()? };
    MixedList::supports(problem.variant, problem.layout)?;
    let (planned, group) = (work.group, problem.heads.group());
    if planned != group {
        return Err(CpuError::Group { planned, group });
    }
    work.check(problem.layout)?;
    let items: Vec<&MixedItem> = work.items().collect();
    let mut places = vec![(0, 0); work.partial_rows as usize];
    for (index, item) in items.iter().enumerate().filter(|(_, item)| item.partial >= 0) {
        let rows = places[item.partial as usize..][..item.rows as usize].iter_mut();
        rows.enumerate().for_each(|(row, place)| *place = (index as u32, row as u32));
    }
    let kv_heads = problem.heads.kv as usize;
    let run = Run {
        sound,
        places,
        partials: (0..items.len() * kv_heads).map(|_| OnceLock::new()).collect(),
        writer: Mutex::new(Writer::new(&mut out)?),
    };
    let widths = [problem.heads.head_dim, problem.values.dim(problem.heads)].map(|dim| dim as usize);
    (0..items.len() * kv_heads)
        .into_par_iter()
        .with_max_len(1)
        .for_each_init(|| Scratch::new(widths), |scratch, task| run.item(scratch, task, items[task / kv_heads]));
    let merges = work.merges.len() * kv_heads;
    (0..merges).into_par_iter().for_each(|task| run.merge(work, &work.merges[task / kv_heads], task % kv_heads));
    Ok(())
}

impl Run<'_> {
    fn item(&self, scratch: &mut Scratch, task: usize, item: &MixedItem) {
        let span = Span {
            request: item.request as usize,
            requests: item.requests as usize,
            kv_head: task % self.sound.heads.kv as usize,
            first_row: item.first_row as usize,
            rows: item.rows as usize,
            begin: item.kv_begin as usize,
            end: item.kv_end as usize,
        };
        scratch.run(&self.sound, span);
        if item.partial < 0 {
            let width = scratch.value_width();
            write(&self.writer, &self.sound, span, (&mut scratch.o, width), &scratch.states);
        } else {
            // each item is run once
            let _ = self.partials[task].set(partial_of(scratch, self.sound.value_dim));
        }
    }

    /// Merges the states of some rows in the order of keys, so that the sum is the same every time.
    fn merge(&self, work: &MixedList, merge: &MixedMerge, kv_head: usize) {
        let value_dim = self.sound.value_dim;
        let (first_row, rows) = (merge.first_row as usize, merge.rows as usize);
        let span = Span { request: merge.request as usize, requests: 1, kv_head, first_row, rows, begin: 0, end: 0 };
        let mut o = vec![0f32; rows * value_dim];
        let mut states = vec![State::EMPTY; rows];
        for &part in &work.merge_parts[merge.first as usize..][..merge.count as usize] {
            let (item, row) = self.places[part as usize];
            let Some(partial) = self.partials[item as usize * self.sound.heads.kv as usize + kv_head].get() else {
                continue;
            };
            let of_rows = row as usize..row as usize + rows;
            let part = (&partial.o[of_rows.start * value_dim..of_rows.end * value_dim], &partial.states[of_rows]);
            merge_rows(&mut o, &mut states, part, value_dim);
        }
        write(&self.writer, &self.sound, span, (&mut o, value_dim), &states);
    }
}
