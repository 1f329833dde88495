//! Endless text against a model by its definition: attention over the kept tokens, each rotated by its place among
//! them. On the CPU, and on a GPU where there is one.

mod definition;

use std::sync::Arc;

use attn::{Engine, f16};
use attn_cache::{Pages, Sequence, Step, StepCapacity};
use attn_needs::{Need, needed};
use definition::Definition;
use generate::{
    Error,
    model::{
        Endless, Model as _, SampleRow, StepInput,
        config::LlamaConfig,
        draw::NoDraw,
        forward::{AttentionForm, Forward, ForwardOptions},
        llama::{Device, Llama, LoadOptions},
        math::{CpuMath, CudaMath, CudaMathOptions, Math},
        random_weights::MadeUp,
        runner::ModelRunner,
        streaming::Streaming,
        weights::LlamaWeights,
    },
    sampling::SamplingParams,
};

const PAGE_SIZE: usize = 4;
const PAGES: usize = 64;
const SINKS: usize = 3;
const WINDOW: usize = 9;
/// Tokens of the prompts, each fed in one step, and tokens after them.
const PROMPTS: [usize; 2] = [10, 4];
const STEPS: usize = 40;

fn random_weights() -> MadeUp {
    MadeUp { config: LlamaConfig::tiny(), tied: true, seed: 5 }
}

/// Whether tables have absolute positions, or kept pages alone.
#[derive(Clone, Copy)]
enum Tables {
    Absolute,
    Kept,
}

/// The logits of the last tokens of two sequences, step by step.
fn logits(math: Box<dyn Math>, fused: bool, tables: Tables) -> Result<Vec<Vec<f32>>, Error> {
    let config = LlamaConfig::tiny();
    let options = ForwardOptions {
        step_tokens: 16,
        step_sequences: 2,
        step_rows: 2,
        pages: PAGES,
        page_size: PAGE_SIZE,
        cache_dtype: None,
        fixed_split_size: None,
    };
    let weights = Arc::new(random_weights().load(&*math)?);
    let streaming = Streaming { kept: Endless { sinks: SINKS, window: WINDOW }, fused };
    let form = AttentionForm { streaming: Some(streaming), ..AttentionForm::default() };
    let forward = Forward::with_form(&config, weights, &options, form, &*math)?;
    let engine = math.engine().clone();
    let mut runner = ModelRunner::new(math, forward, NoDraw, &options, config.context)?;

    let pages = Pages::new(PAGES, PAGE_SIZE)?;
    let capacity = StepCapacity { sequences: 2, tokens: 16, pages: 2 * PAGES, pages_per_sequence: PAGES, levels: 1 };
    let mut step = Step::new(&pages, capacity)?;
    let mut sequences = [Sequence::new(&pages), Sequence::new(&pages)];
    let params = SamplingParams::default();
    let (mut fed, mut all) = ([0; 2], Vec::new());
    for index in 0..=STEPS {
        let new = if index == 0 { PROMPTS } else { [1, 1] };
        let (mut tokens, mut rows) = (Vec::new(), Vec::new());
        for (text, (sequence, new)) in sequences.iter_mut().zip(new).enumerate() {
            let first = fed[text];
            fed[text] += new;
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
        for sequence in &mut sequences {
            match tables {
                Tables::Absolute => drop(sequence.window(WINDOW, SINKS)),
                Tables::Kept => streaming.forget(sequence),
            }
        }
        step.build(&sequences[..])?;
        runner.run(&StepInput { step: &step, tokens: &tokens, rows: &rows, endless: &[] })?;
        step.commit(&mut sequences[..]);
        let logits = engine.download::<f32>(&runner.forward().logits)?;
        all.extend(logits.chunks(config.vocab).take(2).map(<[f32]>::to_vec));
    }
    let most = streaming.kept_pages(PAGE_SIZE, 1);
    assert!(sequences.iter().all(|sequence| sequence.held_pages() <= most), "pages are released");
    if matches!(tables, Tables::Kept) {
        assert!(sequences.iter().all(|sequence| sequence.page_ids().len() <= most), "tables stay short");
    }
    Ok(all)
}

fn token(text: usize, position: usize) -> u32 {
    ((position * 31 + text * 17 + 5) % LlamaConfig::tiny().vocab) as u32
}

/// The same by definition.
fn wanted() -> Vec<Vec<f64>> {
    let mut texts = [0, 1].map(|_| Definition::new(&random_weights()));
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

/// Checks both forms, with tables of both kinds.
fn check(math: impl Fn() -> Result<Box<dyn Math>, Error>, tolerance: f64) -> Result<(), Error> {
    let wanted = wanted();
    for fused in [true, false] {
        for tables in [Tables::Absolute, Tables::Kept] {
            let got = logits(math()?, fused, tables)?;
            assert_eq!(got.len(), wanted.len());
            for (row, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                for (&got, &wanted) in got.iter().zip(wanted) {
                    let apart = (f64::from(got) - wanted).abs();
                    assert!(apart < tolerance, "row {row}, fused {fused}: {got} is not {wanted}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn endless_text_attends_to_the_kept_tokens() -> Result<(), Error> {
    check(|| Ok(Box::new(CpuMath::new()?)), 2e-4)
}

/// A GPU; `None` after the skip was recorded.
fn gpu() -> Option<Engine> {
    needed(Need::Gpu, Engine::cuda(0))
}

#[test]
fn endless_text_is_the_same_on_a_gpu() -> Result<(), Error> {
    let Some(engine) = gpu() else { return Ok(()) };
    check(|| Ok(Box::new(CudaMath::new(&engine, CudaMathOptions::default())?)), 2e-2)
}

#[test]
fn made_up_weights_have_the_same_bits_on_a_gpu() -> Result<(), Error> {
    let Some(engine) = gpu() else { return Ok(()) };
    let math = CudaMath::new(&engine, CudaMathOptions::default())?;
    let there = random_weights().load(&math)?;
    let here = LlamaWeights::load(&LlamaConfig::tiny(), &random_weights(), &math)?;
    for (there, here) in [(&there.embedding, &here.embedding), (&there.layers[2].qkv, &here.layers[2].qkv)] {
        assert_eq!(engine.download::<f16>(&there.values)?, engine.download::<f16>(&here.values)?);
    }
    Ok(())
}

/// A text of a Llama that runs endless texts sees the keys of the pages in its table, by their places there.
#[test]
fn pages_that_leave_the_table_are_forgotten() -> Result<(), Error> {
    let options = LoadOptions {
        device: Device::Cpu,
        step_tokens: 16,
        step_sequences: 1,
        step_rows: 1,
        cache_tokens: PAGES * PAGE_SIZE,
        page_size: PAGE_SIZE,
        endless: true,
        ..LoadOptions::default()
    };
    let mut llama = Llama::new(&LlamaConfig::tiny(), &random_weights(), 0, &options)?;
    assert!(llama.limits().endless);
    let pages = llama.pages().clone();
    let mut step = Step::new(&pages, llama.limits().step_capacity(PAGE_SIZE))?;
    let mut sequences = [Sequence::new(&pages)];
    let mut model = Definition::new(&random_weights());
    let (params, kept) = (SamplingParams::default(), Endless { sinks: SINKS, window: WINDOW });
    // the text tokens of the page table, in whole pages
    let mut table: Vec<usize> = Vec::new();
    for position in 0..60 {
        sequences[0].append(1)?;
        table.push(position);
        step.build(&sequences[..])?;
        let row = SampleRow { row: 0, position: position + 1, params: &params, prompt: &[], generated: &[] };
        let tokens = [token(0, position)];
        llama.run(&StepInput { step: &step, tokens: &tokens, rows: &[row], endless: &[Some(kept)] })?;
        step.commit(&mut sequences[..]);
        let wanted = model.next(token(0, position), |t| table.contains(&t));
        for (got, wanted) in llama.logits(1)?.into_iter().zip(wanted) {
            assert!((f64::from(got) - wanted).abs() < 2e-4, "token {position}: {got} is not {wanted}");
        }
        // as the engine does it
        let released = sequences[0].window(kept.window, kept.sinks) * PAGE_SIZE;
        assert_eq!(sequences[0].compact(), released);
        let first = SINKS.div_ceil(PAGE_SIZE) * PAGE_SIZE;
        table.drain(first.min(table.len())..(first + released).min(table.len()));
        assert_eq!(table.len(), sequences[0].len());
    }
    assert!(table.len() < SINKS + WINDOW + 2 * PAGE_SIZE);
    Ok(())
}
