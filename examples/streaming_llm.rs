//! StreamingLLM: an endless text over a KV cache of constant size, which holds the first keys and a window of the last
//! ones.
//!
//! Keys are stored without rotary embedding, and rotated by their position in the *cache* when they are read (arXiv
//! 2309.17453), so positions never exceed those of training. Pages that left the window are reused. A page that left it
//! in part keeps its place in the page table, and `cache_positions` removes its lost keys from the positions.
//! Lengths are only in the batch, so one plan with a capacity, and one captured graph, serve all steps. Runs on the
//! first CUDA device, else on the CPU.
//!
//! ```text
//! cargo run --release --example streaming_llm
//! ```

#![allow(clippy::print_stdout)]

mod support;

use attn::prelude::*;
use support::{Cache, Fallible, HEADS, PAGE, check, error, k_row, q_row, q_width, reference, v_row};

/// Keys at the start that are always kept: one page.
const SINK: usize = PAGE;
/// The window of last keys, including the query's own.
const WINDOW: usize = 40;
const STEPS: usize = 150;
const THETA: f64 = 10000.0;

fn main() -> Fallible {
    let engine = Engine::auto()?;
    let stream = engine.stream()?;
    // the sink, and the window with the rest of the page before it
    let pages = SINK / PAGE + WINDOW.div_ceil(PAGE) + 1;
    let texts = [1u64, 2];
    // two texts and a spare page, so that the pool is not full
    let mut cache = Cache::new(&engine, texts.len() * pages + 1)?;
    let rotate = format!("remap(cache_positions(sink={SINK}, window={WINDOW}), rope(theta={THETA}))");
    let variant = Variant::parse(&format!("streaming(sink={SINK}, window={WINDOW}) + {rotate}"))?;
    let attention = engine.attention(&variant, HEADS, Dtypes::f16())?;

    let shape = [texts.len(), HEADS.qo as usize, HEADS.head_dim as usize];
    let mut q = engine.alloc(Dtype::F16, texts.len() * q_width())?;
    let mut o = engine.alloc(Dtype::F16, texts.len() * q_width())?;
    let mut workspace = engine.workspace();
    let qo_indptr = [0, 1, 2];
    let keys = texts.len() * pages * PAGE;
    let capacity = BatchCapacity::decode(texts.len() as u32, keys as u32).in_pages(PAGE as u32, cache.pages());
    let mut plan = attention.plan_with(
        &Batch::paged(&qo_indptr, &cache.table([(&[][..], 0), (&[][..], 0)]).table()),
        &mut workspace,
        PlanOptions { capacity: Some(capacity), ..Default::default() },
    )?;

    println!("running on {engine}: {variant}\n");
    println!("{:>6}{:>14}{:>14}{:>14}{:>12}", "token", "keys cached", "attended", "pages", "error");
    // for each text: the pages of its row, and the first token behind the sink
    let mut rows: Vec<(Vec<i32>, usize)> = texts.iter().map(|_| (Vec::new(), SINK)).collect();
    for token in 0..STEPS {
        for (&text, (pages, first)) in texts.iter().zip(&mut rows) {
            // free a page when all of it has left the window
            if token >= *first + WINDOW + PAGE - 1 {
                cache.release([pages.remove(SINK / PAGE)]);
                *first += PAGE;
            }
            let position = if token < SINK { token } else { SINK + token - *first };
            if position == pages.len() * PAGE {
                pages.push(cache.allocate()?);
            }
            cache.append(&stream, pages, position, &k_row(text, token), &v_row(text, token))?;
        }
        let cached = |first: usize| if token < SINK { token + 1 } else { SINK + token - first + 1 };
        let table = cache.table(rows.iter().map(|(pages, first)| (&pages[..], cached(*first))));
        plan.update(&stream, &Batch::paged(&qo_indptr, &table.table()))?;
        let queries: Vec<f16> = texts.iter().flat_map(|&text| q_row(text, token)).collect();
        q.write(&stream, 0, &queries)?;
        plan.run(&stream, q.tensor(&shape)?, cache.kv()?, Out::new(o.tensor_mut(&shape)?))?;
        stream.synchronize()?;

        // the reference: the attended tokens, each rotated by its place among them
        let tokens: Vec<usize> = (0..=token).filter(|&t| t < SINK || token - t < WINDOW).collect();
        let mut want = Vec::new();
        for &text in &texts {
            let query = rotated(&q_row(text, token), tokens.len() - 1);
            let row = |(position, &t): (usize, &usize)| (rotated(&k_row(text, t), position), v_row(text, t));
            want.extend(reference(&query, |_| tokens.iter().enumerate().map(row).collect())?);
        }
        let error = error(&engine.download(&o)?, &want);
        check(&format!("token {token}"), error)?;
        if token % 25 == 24 {
            let (keys, attended, held) = (cached(rows[0].1), tokens.len(), rows[0].0.len());
            println!("{:>6}{keys:>14}{attended:>14}{held:>14}{error:>12.1e}", token + 1);
        }
    }
    Ok(())
}

/// The rows of a token, rotated by a position. Pairs are half a head apart, as in Llama.
fn rotated(row: &[f16], position: usize) -> Vec<f16> {
    let dim = HEADS.head_dim as usize;
    let mut out = row.to_vec();
    for head in out.chunks_mut(dim) {
        for i in 0..dim / 2 {
            let angle = position as f64 * THETA.powf(-2.0 * i as f64 / dim as f64);
            let (a, b) = (f64::from(head[i]), f64::from(head[i + dim / 2]));
            head[i] = f16::from_f64(a * angle.cos() - b * angle.sin());
            head[i + dim / 2] = f16::from_f64(b * angle.cos() + a * angle.sin());
        }
    }
    out
}

#[test]
fn it_checks_itself() -> Fallible {
    main()
}
