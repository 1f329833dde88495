//! A cascade: a system prompt that all requests share, examples that some share, and a conversation each.
//!
//! The keys of the prompt are in memory once, as with any prefix cache. The levels of the cascade tell the kernel,
//! which can then read them once for all requests of a group rather than once for each. The results equal those of a
//! batch without levels. Runs on the first CUDA device, else on the CPU.
//!
//! ```text
//! cargo run --release --example cascade
//! ```

#![allow(clippy::print_stdout)]

mod support;

use attn::batch::{PageTableBuf, indptr};
use attn::prelude::*;
use attn::{Out, Stream};
use support::{Cache, Fallible, HEADS, PAGE, check, error, k_row, q_row, q_width, reference, v_row};

/// Keys of the system prompt: whole pages, so that the batch can also be written without levels.
const PROMPT: usize = 8 * PAGE;
/// Keys of the examples of a group.
const SHOTS: usize = 2 * PAGE;
/// Requests of each group, which are neighbours in the batch.
const GROUPS: [usize; 2] = [2, 4];
/// Keys of each conversation, including its newest token.
const OWN: [usize; 6] = [5, 40, 17, 33, 1, 20];

/// A run of consecutive keys: a text, its pages, and the number of keys.
struct Run {
    text: u64,
    pages: Vec<i32>,
    keys: usize,
}

impl Run {
    fn fill(cache: &mut Cache, stream: &Stream, text: u64, keys: usize) -> Fallible<Self> {
        let pages = cache.allocate_many(keys.div_ceil(PAGE))?;
        let rows =
            |row: fn(u64, usize) -> Vec<f16>| (0..keys).flat_map(|position| row(text, position)).collect::<Vec<_>>();
        cache.append(stream, &pages, 0, &rows(k_row), &rows(v_row))?;
        Ok(Run { text, pages, keys })
    }
}

fn main() -> Fallible {
    let engine = Engine::auto()?;
    let stream = engine.stream()?;
    let mut cache = Cache::new(&engine, 32)?;
    let prompt = Run::fill(&mut cache, &stream, 1, PROMPT)?;
    let shots: Vec<Run> =
        (0..GROUPS.len()).map(|i| Run::fill(&mut cache, &stream, 2 + i as u64, SHOTS)).collect::<Fallible<_>>()?;
    let own: Vec<Run> = OWN
        .iter()
        .enumerate()
        .map(|(i, &keys)| Run::fill(&mut cache, &stream, 10 + i as u64, keys))
        .collect::<Fallible<_>>()?;
    // the runs of each request, in the order of its keys
    let group_of = |request: usize| usize::from(request >= GROUPS[0]);
    let runs = |request: usize| [&prompt, &shots[group_of(request)], &own[request]];

    // one new token a request
    let requests = OWN.len();
    let q: Vec<f16> = own.iter().flat_map(|run| q_row(run.text, run.keys - 1)).collect();
    let of_run = |run: &Run| (0..run.keys).map(|t| (k_row(run.text, t), v_row(run.text, t))).collect::<Vec<_>>();
    let rows = |request: usize| runs(request).into_iter().flat_map(of_run).collect::<Vec<_>>();
    let want: Vec<Vec<f64>> = (q.chunks(q_width()).enumerate())
        .map(|(request, q)| reference(q, |_| rows(request)))
        .collect::<Fallible<_>>()?;
    let want = want.concat();

    let attention = engine.attention(&Variant::parse("causal")?, HEADS, Dtypes::f16())?;
    let q_buffer = engine.upload(&q)?;
    let attend = |batch: &Batch<'_>| -> Fallible<Vec<f16>> {
        let mut workspace = engine.workspace();
        let plan = attention.plan(batch, &mut workspace)?;
        let shape = [requests, HEADS.qo as usize, HEADS.head_dim as usize];
        let mut o = engine.alloc(Dtype::F16, q.len())?;
        plan.run(&stream, q_buffer.tensor(&shape)?, cache.kv()?, Out::new(o.tensor_mut(&shape)?))?;
        stream.synchronize()?;
        Ok(engine.download(&o)?)
    };

    println!("running on {engine}; {requests} requests, {PROMPT} keys shared by all, {SHOTS} by each group\n");
    println!("{:<34}{:>16}{:>12}", "batch", "keys to read", "error");
    let report = |what: &str, tables: &[&PageTableBuf], o: &[f16]| {
        let keys: usize = tables.iter().map(|table| keys_of(table)).sum();
        let error = error(o, &want);
        println!("{what:<34}{keys:>16}{error:>12.1e}");
        check(what, error)
    };

    // every request with all of its pages: each names those of the prompt
    let pages: Vec<Vec<i32>> =
        (0..requests).map(|i| runs(i).iter().flat_map(|run| run.pages.clone()).collect()).collect();
    let keys = |request: usize| runs(request).iter().map(|run| run.keys).sum::<usize>();
    let flat = cache.table(pages.iter().enumerate().map(|(i, pages)| (&pages[..], keys(i))));
    let each = indptr(&vec![1; requests])?;
    report("without levels", &[&flat], &attend(&Batch::paged(&each, &flat.table()))?)?;

    // a level for the prompt, and one for the rest of each request
    let all = [0, requests as i32];
    let of_prompt = cache.table([(&prompt.pages[..], prompt.keys)]);
    let suffixes: Vec<Vec<i32>> =
        (0..requests).map(|i| runs(i)[1..].iter().flat_map(|run| run.pages.clone()).collect()).collect();
    let of_each = cache.table(suffixes.iter().enumerate().map(|(i, pages)| (&pages[..], keys(i) - PROMPT)));
    let levels = [level(&all, &of_prompt), level(&each, &of_each)];
    report("prompt | rest", &[&of_prompt, &of_each], &attend(&Batch::cascade(&each, &levels))?)?;

    // and a level between them for the examples of each group
    let groups = indptr(&GROUPS.map(|requests| requests as u32))?;
    let of_groups = cache.table(shots.iter().map(|run| (&run.pages[..], run.keys)));
    let of_own = cache.table(own.iter().map(|run| (&run.pages[..], run.keys)));
    let levels = [level(&all, &of_prompt), level(&groups, &of_groups), level(&each, &of_own)];
    report(
        "prompt | examples | conversation",
        &[&of_prompt, &of_groups, &of_own],
        &attend(&Batch::cascade(&each, &levels))?,
    )
}

/// A level with these groups of queries and these pages.
fn level<'a>(qo_indptr: &'a [i32], table: &'a PageTableBuf) -> CascadeLevel<'a> {
    CascadeLevel { qo_indptr, kv: CascadeLevelKv::Paged(table.table()) }
}

/// The number of keys of a page table.
fn keys_of(table: &PageTableBuf) -> usize {
    let row = |i: usize| (table.indptr[i + 1] - table.indptr[i]) as usize;
    (0..table.last_page_len.len())
        .filter(|&i| row(i) > 0)
        .map(|i| (row(i) - 1) * PAGE + table.last_page_len[i] as usize)
        .sum()
}

#[test]
fn it_checks_itself() -> Fallible {
    main()
}
