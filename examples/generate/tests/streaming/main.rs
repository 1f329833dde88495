//! Endless text against a model by its definition: attention over the keys of the pages that are in the table, each
//! rotated by its place there. On the CPU, and on a GPU where there is one.

mod definition;

use attn::Engine;
use attn_cache::{Sequence, Step};
use attn_needs::{Need, has};
use definition::Definition;
use generate::{
    Error,
    model::{
        Endless, Model as _, SampleRow, StepInput,
        config::LlamaConfig,
        llama::{Device, Llama, LoadOptions},
        random_weights::MadeUp,
    },
    sampling::SamplingParams,
};

const PAGE_SIZE: usize = 4;
const KEPT: Endless = Endless { sinks: 3, window: 9 };
/// Tokens of the prompts, each fed in one step, and steps after them.
const PROMPTS: [usize; 2] = [10, 4];
const STEPS: usize = 60;

/// A text, and a model of it by definition.
struct Text {
    definition: Definition,
    /// The tokens of the page table, in whole pages.
    table: Vec<usize>,
}

fn token(text: usize, position: usize) -> u32 {
    ((position * 31 + text * 17 + 5) % LlamaConfig::tiny().vocab) as u32
}

/// Runs two texts far beyond their window, and compares their logits with those of the definition.
fn check(device: Device, tolerance: f64) -> Result<(), Error> {
    let weights = MadeUp { config: LlamaConfig::tiny(), tied: true, seed: 5 };
    let options = LoadOptions {
        device,
        batch_invariant: Some(false),
        step_tokens: 16,
        step_sequences: 2,
        step_rows: 2,
        cache_tokens: 256,
        page_size: PAGE_SIZE,
        endless: true,
        ..LoadOptions::default()
    };
    let mut llama = Llama::new(&weights.config, &weights, 0, &options)?;
    let pages = llama.pages().clone();
    let mut step = Step::new(&pages, llama.limits().step_capacity(PAGE_SIZE))?;
    let mut sequences = [0, 1].map(|_| Sequence::new(&pages));
    let mut texts = [0, 1].map(|_| Text { definition: Definition::new(&weights), table: Vec::new() });
    let params = SamplingParams::default();
    for index in 0..=STEPS {
        let (mut tokens, mut rows, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (sequence, text)) in sequences.iter_mut().zip(&mut texts).enumerate() {
            let mut logits = Vec::new();
            for _ in 0..if index == 0 { PROMPTS[number] } else { 1 } {
                let position = text.definition.len();
                tokens.push(token(number, position));
                text.table.push(position);
                logits = text.definition.next(token(number, position), |t| text.table.contains(&t));
                sequence.append(1)?;
            }
            let position = text.definition.len();
            rows.push(SampleRow { row: tokens.len() - 1, position, params: &params, prompt: &[], generated: &[] });
            wanted.extend(logits);
        }
        step.build(&sequences[..])?;
        llama.run(&StepInput { step: &step, tokens: &tokens, rows: &rows, endless: &[Some(KEPT); 2] })?;
        step.commit(&mut sequences[..]);
        for (at, (got, wanted)) in llama.logits(2)?.into_iter().zip(wanted).enumerate() {
            assert!((f64::from(got) - wanted).abs() < tolerance, "step {index}, logit {at}: {got} is not {wanted}");
        }
        // as the engine does it
        for (sequence, Text { table, .. }) in sequences.iter_mut().zip(&mut texts) {
            let released = sequence.window(KEPT.window, KEPT.sinks) * PAGE_SIZE;
            assert_eq!(sequence.compact(), released);
            let first = KEPT.sinks.div_ceil(PAGE_SIZE) * PAGE_SIZE;
            table.drain(first.min(table.len())..(first + released).min(table.len()));
            assert_eq!(table.len(), sequence.len());
        }
    }
    assert!(texts.iter().all(|text| text.table.len() < KEPT.sinks + KEPT.window + 2 * PAGE_SIZE), "tables stay short");
    Ok(())
}

#[test]
fn endless_text_attends_to_the_kept_tokens() -> Result<(), Error> {
    check(Device::Cpu, 2e-4)
}

#[test]
fn endless_text_is_the_same_on_a_gpu() -> Result<(), Error> {
    if !has(Need::Gpu, Engine::cuda(0)) {
        return Ok(());
    }
    check(Device::Cuda, 2e-2)
}
