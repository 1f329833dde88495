//! Endless text on the CPU against a model by its definition: attention over the kept tokens, each rotated by its place
//! among them.

mod definition;

use std::sync::Arc;

use attn_cache::{Pages, Sequence, Step, StepCapacity};
use generate::{
    Error,
    model::{
        SampleRow, StepInput,
        config::LlamaConfig,
        draw::NoDraw,
        forward::{AttentionForm, Forward, ForwardOptions},
        made_up::MadeUp,
        math::{CpuMath, Math as _},
        runner::ModelRunner,
        streaming::{Streamed, Streaming},
        weights::LlamaWeights,
    },
    sampling::SamplingParams,
};
use definition::Definition;

const PAGE_SIZE: usize = 4;
const PAGES: usize = 64;
const SINKS: usize = 3;
const WINDOW: usize = 9;
/// Tokens of the prompts, each fed in one step, and tokens after them.
const PROMPTS: [usize; 2] = [10, 4];
const STEPS: usize = 40;

fn made_up() -> MadeUp {
    MadeUp { config: LlamaConfig::tiny(), tied: true, seed: 5 }
}

/// Whether tables have absolute positions, or kept pages alone.
#[derive(Clone, Copy)]
enum Tables {
    Absolute,
    Kept,
}

/// The logits of the last tokens of two sequences, step by step.
fn logits(fused: bool, tables: Tables) -> Result<Vec<Vec<f32>>, Error> {
    let config = LlamaConfig::tiny();
    let math = Box::new(CpuMath::new()?);
    let options = ForwardOptions {
        step_tokens: 16,
        step_sequences: 2,
        pages: PAGES,
        page_size: PAGE_SIZE,
        cache_dtype: None,
        fixed_split_size: None,
    };
    let weights = Arc::new(LlamaWeights::load(&config, &made_up(), &*math)?);
    let streaming = Streaming { sinks: SINKS, window: WINDOW, fused };
    let form = AttentionForm { streaming: Some(streaming), ..AttentionForm::default() };
    let forward = Forward::with_form(&config, weights, &options, form, &*math)?;
    let engine = math.engine().clone();
    let mut runner = ModelRunner::new(math, forward, NoDraw, &options, config.context)?;

    let pages = Pages::new(PAGES, PAGE_SIZE)?;
    let capacity = StepCapacity { sequences: 2, tokens: 16, pages: 2 * PAGES, pages_per_sequence: PAGES, levels: 1 };
    let mut step = Step::new(&pages, capacity)?;
    let mut sequences = [Sequence::new(&pages), Sequence::new(&pages)];
    let params = SamplingParams::default();
    let mut all = Vec::new();
    for index in 0..=STEPS {
        let new = if index == 0 { PROMPTS } else { [1, 1] };
        let (mut tokens, mut rows) = (Vec::new(), Vec::new());
        for (text, (sequence, new)) in sequences.iter_mut().zip(new).enumerate() {
            let first = sequence.len();
            tokens.extend((first..first + new).map(|position| token(text, position)));
            sequence.append(new)?;
            rows.push(SampleRow {
                row: tokens.len() - 1,
                position: first + new,
                params: &params,
                prompt: &[],
                generated: &[],
            });
        }
        match tables {
            Tables::Absolute => {
                sequences.iter_mut().for_each(|sequence| {
                    sequence.window(WINDOW, SINKS);
                });
                step.build(&sequences[..])?;
            }
            Tables::Kept => step.build(&Streamed::new(&mut sequences, &streaming, &pages))?,
        }
        runner.run(&StepInput { step: &step, tokens: &tokens, rows: &rows })?;
        step.commit(&mut sequences[..]);
        let logits = engine.download::<f32>(&runner.forward().logits)?;
        all.extend(logits.chunks(config.vocab).take(2).map(<[f32]>::to_vec));
    }
    let most = streaming.kept_pages(PAGE_SIZE, 1);
    assert!(sequences.iter().all(|sequence| sequence.held_pages() <= most), "pages are released");
    Ok(all)
}

fn token(text: usize, position: usize) -> u32 {
    ((position * 31 + text * 17 + 5) % LlamaConfig::tiny().vocab) as u32
}

/// The same by definition.
fn wanted() -> Vec<Vec<f64>> {
    let mut texts = [0, 1].map(|_| Definition::new(&made_up()));
    let mut all = Vec::new();
    for index in 0..=STEPS {
        for (text, (model, prompt)) in texts.iter_mut().zip(PROMPTS).enumerate() {
            let new = if index == 0 { prompt } else { 1 };
            let mut logits = Vec::new();
            for _ in 0..new {
                let position = model.len();
                logits = model.next(token(text, position), |t| t < SINKS || position - t < WINDOW);
            }
            all.push(logits);
        }
    }
    all
}

#[test]
fn endless_text_attends_to_the_kept_tokens() -> Result<(), Error> {
    let wanted = wanted();
    for fused in [true, false] {
        for tables in [Tables::Absolute, Tables::Kept] {
            let got = logits(fused, tables)?;
            assert_eq!(got.len(), wanted.len());
            for (row, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                for (&got, &wanted) in got.iter().zip(wanted) {
                    assert!((f64::from(got) - wanted).abs() < 2e-4, "row {row}, fused {fused}: {got} is not {wanted}");
                }
            }
        }
    }
    Ok(())
}
