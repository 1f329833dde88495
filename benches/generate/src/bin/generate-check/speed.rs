//! Speed of decoding.

use std::time::{Duration, Instant};

use generate::{
    Error,
    model::{Model as _, SampleRow, StepInput, steps::Steps},
    sampling::SamplingParams,
};
use generate_benches::median;

use super::{Options, STEP_TOKENS};

/// Tokens of each prompt.
const PROMPT: usize = 16;
/// Steps of decoding before the clock starts, and while it runs.
const STEPS: [usize; 2] = [32, 256];

/// Prints tokens per second for several batch sizes, and the time of the host, with tokens that are drawn and fed, and
/// without draws.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let mut steps = options.steps(false, true)?;
    println!("speed on {}", steps.llama.engine());
    for batch in [1, 2, 4, 8, 16, 32, 64] {
        decode(&mut steps, batch, "")?;
    }
    drop(steps);
    let mut steps = options.steps(false, false)?;
    for batch in [1, 4, 32, 64] {
        decode(&mut steps, batch, " without draws")?;
    }
    Ok(())
}

fn decode(steps: &mut Steps, batch: usize, how: &str) -> Result<(), Error> {
    let mut sequences: Vec<_> = (0..batch).map(|_| steps.sequence()).collect();
    let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| 1000 + 37 * i).collect();
    for sequences in sequences.chunks_mut(STEP_TOKENS / PROMPT) {
        let prompts = vec![&prompt[..]; sequences.len()];
        steps.run(sequences, &prompts, &[])?;
    }
    let params = SamplingParams::default();
    let (mut tables, mut uploads, mut launches, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut tokens = vec![2000; batch];
    for step in 0..STEPS[0] + STEPS[1] {
        let begin = Instant::now();
        for sequence in &mut sequences {
            sequence.append(1)?;
        }
        steps.step.build(&sequences[..])?;
        let row = |row| SampleRow { row, position: PROMPT + step, params: &params, prompt: &[], generated: &[] };
        let rows: Vec<_> = (0..batch).map(row).collect();
        let built = begin.elapsed();
        let input = StepInput { step: &steps.step, tokens: &tokens, rows: &rows, endless: &[] };
        let sampled = steps.llama.run(&input)?;
        tokens.iter_mut().zip(&sampled).for_each(|(token, sampled)| *token = sampled.token);
        steps.step.commit(&mut sequences[..]);
        if step >= STEPS[0] {
            let times = steps.llama.runner().host_times();
            tables.push(built);
            uploads.push(times.uploads);
            launches.push(times.launches);
            whole.push(begin.elapsed());
        }
    }
    let all: Duration = whole.iter().sum();
    let rate = (batch * whole.len()) as f64 / all.as_secs_f64();
    let us = |times: Vec<Duration>| median(&times.iter().map(|time| 1e6 * time.as_secs_f64()).collect::<Vec<_>>());
    let [tables, uploads, launches, whole] = [tables, uploads, launches, whole].map(us);
    println!(
        "  batch {batch}{how}: {rate:.0} tokens/s, a step {whole:.1} us; host: tables {tables:.1}, \
         uploads {uploads:.1}, plan and graph {launches:.1} us"
    );
    Ok(())
}
