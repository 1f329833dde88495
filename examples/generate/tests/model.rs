//! The real model: its tokenizer, penalties and masks. `generate-check` of `benches/generate` compares
//! it with another program's forward pass.

#![allow(clippy::unwrap_used)]

use generate::{
    model::{
        SampleRow,
        llama::{Device, LoadOptions, load},
        steps::Steps,
    },
    sampling::SamplingParams,
    tokenizer::Tokenizer,
};
use serde::Deserialize;

/// What a plain forward pass in numpy computed from the same file (`data/make_smollm2_truth.py`).
#[derive(Debug, Deserialize)]
struct Truth {
    texts: Vec<Text>,
    prompts: Vec<Prompt>,
}

#[derive(Debug, Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
struct Prompt {
    prompt: String,
    ids: Vec<u32>,
    /// The likeliest tokens, with logits and margins.
    greedy: Vec<(u32, f32, f32)>,
}

fn truth() -> Truth {
    serde_json::from_str(include_str!("data/smollm2_truth.json")).expect("a truth")
}

/// The model on the CPU.
fn model() -> (Steps, Tokenizer) {
    let options = LoadOptions { device: Device::Cpu, step_sequences: 16, cache_tokens: 4096, ..LoadOptions::default() };
    let (llama, tokenizer) = load(&options).expect("the model");
    (Steps::new(llama).expect("small"), tokenizer)
}

#[test]
fn tokens_are_those_of_the_truth() {
    let (truth, (_, tokenizer)) = (truth(), model());
    for text in &truth.texts {
        assert_eq!(tokenizer.encode(&text.text).unwrap(), text.ids);
        assert_eq!(tokenizer.decode(&text.ids), text.text);
    }
    for prompt in &truth.prompts {
        assert_eq!(tokenizer.encode(&prompt.prompt).unwrap(), prompt.ids);
    }
}

#[test]
fn penalties_and_masks_change_what_is_drawn() {
    let (truth, (mut run, _)) = (truth(), model());
    let prompt = &truth.prompts[0];
    let (generated, second) = ([prompt.greedy[0].0], 30u32);
    let best = generated[0];
    let mask = |allowed: &[u32]| {
        let mut mask = vec![0u32; run.llama.config().vocab.div_ceil(32)];
        allowed.iter().for_each(|&token| mask[token as usize / 32] |= 1 << (token % 32));
        Some(mask.into())
    };
    let plain = SamplingParams { top_logprobs: 3, ..SamplingParams::default() };
    let masked = SamplingParams { allowed: mask(&[second, 40]), ..SamplingParams::default() };
    let penalised = SamplingParams { frequency_penalty: 100.0, ..SamplingParams::default() };
    let nothing = SamplingParams { allowed: mask(&[]), ..SamplingParams::default() };
    let at = prompt.ids.len() - 1;
    let rows = [&plain, &masked, &penalised, &nothing].map(|params| SampleRow {
        row: at,
        position: at + 1,
        params,
        prompt: &prompt.ids,
        generated: &generated,
    });
    let drawn = run.draw(&mut [run.sequence()], &[&prompt.ids], &rows).unwrap();
    assert_eq!(drawn[0].token, best);
    assert_eq!((drawn[0].top.len(), drawn[0].top[0].0, drawn[0].top[0].1), (3, best, drawn[0].logprob));
    assert!([second, 40].contains(&drawn[1].token));
    assert!(drawn[2].token != best && (drawn[2].token as usize) < run.llama.config().vocab);
    assert!(drawn[3].token as usize >= run.llama.config().vocab, "no token is allowed, and the others go on");

    // a token outside of the vocabulary, and a row outside of the step, are refused
    let params = SamplingParams::default();
    let row = |row| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
    for (tokens, at) in [(&[49_152u32][..], 0), (&[u32::MAX], 0), (&[5], 1)] {
        let error = run.draw(&mut [run.sequence()], &[tokens], &[row(at)]).unwrap_err();
        assert!(matches!(error, generate::Error::Step { .. }), "{error}");
    }
}
