//! Host time of a step of 64 texts, beside a model that does nothing: scheduling, page tables, guesses and events. Each
//! measurement is the median of its steps, so that what else runs on the machine does not count.
//!
//! ```sh
//! cargo bench -p generate-benches --bench engine_step
//! ```

use std::{hint::black_box, time::Instant};

use attn_cache::Pages;
use criterion::{Criterion, criterion_group, criterion_main};
use generate::{
    Error,
    engine::{Engine, EngineConfig, Request, RequestEvent},
    model::{Endless, Model, ModelLimits, StepInput},
    sampling::Sampled,
};

/// Texts that run.
const TEXTS: usize = 64;
const PROMPT: usize = 500;
/// Tokens of each text: prompts are computed between measurements.
const TOKENS: usize = 400;

/// Draws the same few tokens again and again, so that guesses are right.
#[derive(Debug)]
struct NoModel(Pages);

impl Model for NoModel {
    fn limits(&self) -> ModelLimits {
        ModelLimits {
            vocab: 49_152,
            context: 8192,
            step_tokens: 2048,
            step_sequences: TEXTS,
            step_rows: 5 * TEXTS,
            top_logprobs: 0,
            endless: true,
            eos: 2,
        }
    }

    fn pages(&self) -> &Pages {
        &self.0
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        let token = |position: usize| 3 + (position % 11) as u32;
        let drawn = input.rows.iter().map(|row| Sampled { token: token(row.position), logprob: 0.0, top: Vec::new() });
        Ok(black_box(drawn.collect()))
    }
}

/// An engine whose requests all draw tokens, and a request to go on with.
fn engine(request: &Request, events: &mut Vec<RequestEvent>) -> Engine<NoModel> {
    let pages = Pages::new(8192, 16).expect("a pool");
    let mut engine = Engine::new(NoModel(pages), EngineConfig::default()).expect("an engine");
    fill(&mut engine, request, events);
    engine
}

/// Submits requests, and computes their prompts.
fn fill(engine: &mut Engine<NoModel>, request: &Request, events: &mut Vec<RequestEvent>) {
    for first in 0..(TEXTS / request.choices) as u32 {
        let prompt = (0..PROMPT as u32).map(|i| 100 + first + i * (first + 7) % 4001).collect();
        engine.submit(Request { prompt, ..request.clone() }).expect("it fits");
    }
    let end = engine.stats().generated_tokens + TEXTS as u64;
    while engine.stats().running < TEXTS || engine.stats().generated_tokens < end {
        engine.step(events);
    }
    // the last prompts are computed when each of the first ones has as many tokens as there are steps for prompts
    (0..TEXTS * PROMPT / 2048 + 2).for_each(|_| engine.step(events));
    events.clear();
}

fn steps(c: &mut Criterion) {
    let base = Request { ignore_eos: true, ..Request::new([1], TOKENS) };
    let endless = Endless { sinks: 4, window: 600 };
    let cases = [
        ("64 texts", base.clone()),
        ("64 texts with 4 guesses each", Request { speculate: 4, ..base.clone() }),
        ("4 prompts of 16 choices", Request { choices: 16, ..base.clone() }),
        ("64 endless texts", Request { endless: Some(endless), ..base }),
    ];
    let mut group = c.benchmark_group("engine_step");
    for (name, request) in cases {
        let mut events = Vec::new();
        let mut engine = engine(&request, &mut events);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|steps| {
                let mut times = Vec::new();
                for _ in 0..steps {
                    // a step in which texts end is none of steady decoding
                    if engine.stats().running < TEXTS || engine.stats().waiting > 0 {
                        while !engine.is_idle() {
                            engine.step(&mut events);
                        }
                        fill(&mut engine, &request, &mut events);
                    }
                    let begin = Instant::now();
                    engine.step(&mut events);
                    times.push(begin.elapsed());
                    events.clear();
                }
                times.sort_unstable();
                times[times.len() / 2].mul_f64(steps as f64)
            });
        });
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
