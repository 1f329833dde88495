//! Quest: in each decode step, every KV head reads only the pages of keys that can matter most to its query (arXiv
//! 2406.10774).
//!
//! Each page keeps the minimum and maximum of its keys in every dimension. They bound the largest logit of its keys
//! with a query without reading a key. The pages with the highest bounds go to the variant `page_list`, for each
//! request and KV head. Some keys here are close to later queries, as in real texts, so reading a quarter of the pages
//! gives nearly the result of all. Runs on the first CUDA device, else on the CPU.
//!
//! ```text
//! cargo run --release --example quest
//! ```

#![allow(clippy::print_stdout)]

mod support;

use attn::batch::indptr;
use attn::expr::TensorContent;
use attn::prelude::*;
use attn::stock::PageList;
use attn::stock::quest::{PageBounds, top_pages};
use attn::{Out, Stream};
use support::{Cache, Fallible, HEADS, PAGE, check, error, k_row, q_row, q_width, reference, v_row};

/// Keys of each request.
const LENS: [usize; 3] = [300, 517, 96];
/// The fraction of a request's pages that is read.
const KEEP: f64 = 0.25;
const STEPS: usize = 4;
const DIM: usize = HEADS.head_dim as usize;

/// A request: its text, its pages, their bounds, and its keys on the host for the reference.
struct Request {
    text: u64,
    pages: Vec<i32>,
    bounds: PageBounds,
    keys: Vec<Vec<f16>>,
}

impl Request {
    fn fill(cache: &mut Cache, stream: &Stream, text: u64, len: usize) -> Fallible<Self> {
        let pages = cache.allocate_many(len.div_ceil(PAGE))?;
        let mut keys = Vec::with_capacity(len);
        let mut bounds = PageBounds::new(PAGE, HEADS.kv as usize, DIM);
        for position in 0..len {
            let key = key(text, position);
            bounds.push(&widened(&key))?;
            keys.push(key);
        }
        let values: Vec<f16> = (0..len).flat_map(|position| v_row(text, position)).collect();
        cache.append(stream, &pages, 0, &keys.concat(), &values)?;
        Ok(Request { text, pages, bounds, keys })
    }

    /// The number of pages that a KV head reads.
    fn kept(&self) -> usize {
        (self.pages.len() as f64 * KEEP).ceil() as usize
    }

    /// The pages that each KV head reads: those with the highest bounds over its query heads, and the newest page.
    fn choose(&self, q: &[f16]) -> Fallible<Vec<Vec<i32>>> {
        let kept = self.kept();
        let scores = self.bounds.scores(&widened(q))?;
        Ok(scores.chunks(self.pages.len()).map(|of_head| top_pages(of_head, kept)).collect())
    }

    /// The keys and values at some places.
    fn rows(&self, positions: impl Iterator<Item = usize>) -> Vec<(Vec<f16>, Vec<f16>)> {
        positions.map(|position| (self.keys[position].clone(), v_row(self.text, position))).collect()
    }
}

fn widened(row: &[f16]) -> Vec<f32> {
    row.iter().map(|x| x.to_f32()).collect()
}

/// Synthetic keys. Some consecutive ones are close to a later query, as the words of a sentence are.
fn key(text: u64, position: usize) -> Vec<f16> {
    let mut key = k_row(text, position);
    if position % 97 < 4 {
        let query = q_row(text, position % STEPS);
        let group = (HEADS.qo / HEADS.kv) as usize;
        for (kv_head, key) in key.chunks_mut(DIM).enumerate() {
            // the mean of the queries that share the head
            for (d, x) in key.iter_mut().enumerate() {
                let heads = (0..group).map(|g| query[(kv_head * group + g) * DIM + d].to_f32());
                *x = f16::from_f32(0.3 * x.to_f32() + 2.0 * heads.sum::<f32>());
            }
        }
    }
    key
}

fn main() -> Fallible {
    let engine = Engine::auto()?;
    let stream = engine.stream()?;
    let pages: usize = LENS.iter().map(|len| len.div_ceil(PAGE)).sum();
    let mut cache = Cache::new(&engine, pages + 1)?;
    let requests: Vec<Request> = LENS
        .iter()
        .enumerate()
        .map(|(i, &len)| Request::fill(&mut cache, &stream, 1 + i as u64, len))
        .collect::<Fallible<_>>()?;
    let table = cache.table(requests.iter().map(|r| (&r.pages[..], r.keys.len())));
    let qo_indptr = indptr(&[1; LENS.len()])?;
    let shape = [LENS.len(), HEADS.qo as usize, DIM];
    let mut o = engine.alloc(Dtype::F16, LENS.len() * q_width())?;

    // compiled and planned once, for the longest lists; each step sets other lists
    let capacity = requests.iter().map(Request::kept).max().unwrap_or(1) as i32;
    let page_list = PageList::with_capacity(PAGE as i32, capacity, LENS.len(), HEADS.kv as usize)?;
    let attention = engine.attention(&compose!(page_list), HEADS, Dtypes::f16())?;
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::paged(&qo_indptr, &table.table()), &mut workspace)?;

    println!("running on {engine}: {pages} pages of {PAGE} keys\n");
    println!("{:>5}{:>14}{:>20}{:>14}{:>20}", "step", "pages read", "of a head's keys", "error", "error of skipping");
    for step in 0..STEPS {
        let queries: Vec<Vec<f16>> = requests.iter().map(|r| q_row(r.text, step)).collect();
        let chosen: Vec<Vec<Vec<i32>>> =
            requests.iter().zip(&queries).map(|(request, q)| request.choose(q)).collect::<Fallible<_>>()?;

        let lists = PageList::from_lists(PAGE as i32, capacity, &chosen)?;
        attention.set_tensor(&stream, "pages", &TensorContent::host(lists.pages.as_slice()))?;
        attention.set_tensor(&stream, "count", &TensorContent::host(lists.count.as_slice()))?;
        let q = engine.upload(&queries.concat())?;
        plan.run(&stream, q.tensor(&shape)?, cache.kv()?, Out::new(o.tensor_mut(&shape)?))?;
        stream.synchronize()?;
        let got: Vec<f16> = engine.download(&o)?;

        // the reference over the chosen pages, and over all
        let (mut want, mut all) = (Vec::new(), Vec::new());
        for ((request, q), lists) in requests.iter().zip(&queries).zip(&chosen) {
            let len = request.keys.len();
            want.extend(reference(q, |head| {
                let positions = lists[head].iter().flat_map(|&page| {
                    let first = page as usize * PAGE;
                    first..len.min(first + PAGE)
                });
                request.rows(positions)
            })?);
            all.extend(reference(q, |_| request.rows(0..len))?);
        }
        let read: usize = chosen.iter().flatten().map(Vec::len).sum();
        let (off, skipped) = (error(&got, &want), error(&got, &all));
        let part = 100.0 * read as f64 / (pages * HEADS.kv as usize) as f64;
        println!("{step:>5}{read:>14}{part:>19.0}%{off:>14.1e}{skipped:>20.1e}");
        check(&format!("step {step}"), off)?;
        if skipped > 0.1 {
            return Err(format!("step {step}: the chosen pages miss keys that matter").into());
        }
    }
    Ok(())
}

#[test]
fn it_checks_itself() -> Fallible {
    main()
}
