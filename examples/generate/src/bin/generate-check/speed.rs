//! Speed of decoding.

use std::time::{Duration, Instant};

use attn_cache::Sequence;
use generate::{
    Error,
    model::{
        SampleRow, StepInput,
        draw::{Draw, NoDraw},
        sampler::Sampler,
    },
    sampling::SamplingParams,
};

use super::{
    Options,
    harness::{Harness, Mode, STEP_SEQUENCES, STEP_TOKENS},
};

/// Tokens of each prompt.
const PROMPT: usize = 16;
/// Steps of decoding before the clock starts, and while it runs.
const STEPS: [usize; 2] = [32, 256];

/// Prints tokens per second for several batch sizes, and the time of the host, with tokens that are drawn and fed, and
/// without draws.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let mode = Mode::of(options, false);
    let mut harness = Harness::new(options, mode, |engine, vocab| Sampler::new(engine, STEP_SEQUENCES, vocab))?;
    println!("speed on {}, residual in {}", harness.engine, harness.runner.math().residual_dtype());
    for batch in [1, 2, 4, 8, 16, 32, 64] {
        decode(&mut harness, batch, "")?;
    }
    drop(harness);
    let mut harness = Harness::new(options, mode, |_, _| Ok(NoDraw))?;
    for batch in [1, 4, 32, 64] {
        decode(&mut harness, batch, " without draws")?;
    }
    Ok(())
}

fn decode<D: Draw>(harness: &mut Harness<D>, batch: usize, how: &str) -> Result<(), Error> {
    let mut sequences: Vec<_> = (0..batch).map(|_| Sequence::new(&harness.pages)).collect();
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| 1000 + 37 * i).collect();
    for sequences in sequences.chunks_mut(STEP_TOKENS / PROMPT) {
        let prompts = vec![&prompt[..]; sequences.len()];
        harness.run(sequences, &prompts, &[])?;
    }
    let params = SamplingParams::default();
    let (mut tables, mut uploads, mut launches, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut tokens = vec![2000; batch];
    for step in 0..STEPS[0] + STEPS[1] {
        let begin = Instant::now();
        for sequence in &mut sequences {
            sequence.append(1)?;
        }
        harness.step.build(&sequences[..])?;
        let row = |row| SampleRow { row, position: PROMPT + step, params: &params, prompt: &[], generated: &[] };
        let rows: Vec<_> = (0..batch).map(row).collect();
        let built = begin.elapsed();
        let input = StepInput { step: &harness.step, tokens: &tokens, rows: &rows, endless: &[] };
        let sampled = harness.runner.run(&input)?;
        tokens.iter_mut().zip(&sampled).for_each(|(token, sampled)| *token = sampled.token);
        harness.step.commit(&mut sequences[..]);
        if step >= STEPS[0] {
            let times = harness.runner.host_times();
            tables.push(built);
            uploads.push(times.uploads);
            launches.push(times.launches);
            whole.push(begin.elapsed());
        }
    }
    let all: Duration = whole.iter().sum();
    let rate = (batch * whole.len()) as f64 / all.as_secs_f64();
    let [tables, uploads, launches, whole] = [tables, uploads, launches, whole].map(median);
    println!(
        "  batch {batch}{how}: {rate:.0} tokens/s, a step {whole:.1} us; host: tables {tables:.1}, \
         uploads {uploads:.1}, plan and graph {launches:.1} us"
    );
    Ok(())
}

/// The median in microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
