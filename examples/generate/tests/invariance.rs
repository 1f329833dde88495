//! A text has the same bits alone and in a batch, in one piece and in chunks, with a warm prefix cache and with a cold
//! one, and after a fork.

#![allow(clippy::unwrap_used)]

mod support;

use attn_cache::{Namespace, Prefix, Sequence};
use generate::{
    model::{Model, SampleRow},
    sampling::SamplingParams,
};
use support::{Run, truth};

/// The bits of the logits of the last step's rows.
fn bits(run: &Run, rows: usize) -> Vec<Vec<u32>> {
    run.logits(rows).iter().map(|logits| logits.iter().map(|x| x.to_bits()).collect()).collect()
}

#[test]
fn a_text_has_its_bits_in_any_batch() {
    let (truth, mut run) = (truth(), Run::new());
    let long = &truth.texts[0].ids;

    // whole, and in chunks down to single tokens, beside other texts
    let mut whole = [run.sequence()];
    run.step(&mut whole, &[&long[..200]], &[199]);
    let want = bits(&run, 1);
    let (mut chunked, mut done) = ([run.sequence(), run.sequence()], 0);
    for (i, len) in [1, 130, 1, 1, 3, 40, 5, 18, 1].into_iter().enumerate() {
        let other = &truth.texts[1].ids[i * 4..][..4];
        run.step(&mut chunked, &[&long[done..done + len], other], &[len - 1]);
        done += len;
    }
    assert_eq!(done, 200);
    assert!(bits(&run, 1) == want, "chunks change bits");

    // a warm prefix cache: the last page and some tokens are computed, all others are found
    let (prefix, namespace) = (Prefix::new(run.model.pages()), Namespace::default());
    whole[0].cache(&prefix, &namespace, &long[..200]).unwrap();
    for reach in [200, 70, 33] {
        let mut cold = [run.sequence()];
        run.step(&mut cold, &[&long[..reach]], &[reach - 1]);
        let want = bits(&run, 1);
        let hit = prefix.lookup(&namespace, &long[..reach]);
        let found = hit.tokens;
        assert!(found >= 32, "{found}");
        let mut warm = [Sequence::with_prefix(run.model.pages(), hit)];
        run.step(&mut warm, &[&long[found..reach]], &[reach - found - 1]);
        assert!(bits(&run, 1) == want, "{found} tokens of {reach} were found");
    }

    // all prompts at once, and each alone
    let prompts: Vec<&[u32]> = truth.prompts.iter().map(|prompt| &prompt.ids[..]).collect();
    let mut sequences: Vec<_> = prompts.iter().map(|_| run.sequence()).collect();
    let together = run.greedy(&mut sequences, &prompts, 12);
    let last = bits(&run, prompts.len());
    for (i, prompt) in prompts.iter().enumerate() {
        let alone = run.greedy(&mut [run.sequence()], &[prompt], 12);
        assert_eq!(alone[0], together[i]);
        assert!(bits(&run, 1)[0] == last[i], "a batch changes bits");
        let truth: Vec<u32> = truth.prompts[i].greedy[..12].iter().map(|greedy| greedy.0).collect();
        assert_eq!(alone[0], truth, "the margins of the first tokens are large");
    }
}

#[test]
fn choices_of_one_prompt_share_its_pages_and_differ_by_their_seed() {
    let (truth, mut run) = (truth(), Run::new());
    let prompt = &truth.prompts[0].ids;
    let params = |seed| SamplingParams { temperature: 1.0, top_p: 0.9, seed, ..SamplingParams::default() };
    let row = |row, position, params| SampleRow { row, position, params, prompt, generated: &[] };

    // four draws after the prompt, then a fork for each
    let all: Vec<_> = (0..4).map(params).collect();
    let mut first = vec![run.sequence()];
    let rows: Vec<_> = all.iter().map(|params| row(prompt.len() - 1, prompt.len(), params)).collect();
    let mut drawn = run.step_with(&mut first, &[prompt], &rows).unwrap();
    let mut choices: Vec<Sequence> = (0..3).map(|_| first[0].fork().unwrap()).collect();
    choices.append(&mut first);
    let pages = run.model_pages_used();
    assert_eq!(pages, prompt.len().div_ceil(16));
    let mut texts: Vec<Vec<u32>> = drawn.iter().map(|drawn| vec![drawn.token]).collect();
    for position in prompt.len() + 1..prompt.len() + 12 {
        let new: Vec<[u32; 1]> = drawn.iter().map(|drawn| [drawn.token]).collect();
        let new: Vec<&[u32]> = new.iter().map(|new| &new[..]).collect();
        let rows: Vec<_> = all.iter().enumerate().map(|(i, params)| row(i, position, params)).collect();
        drawn = run.step_with(&mut choices, &new, &rows).unwrap();
        texts.iter_mut().zip(&drawn).for_each(|(text, drawn)| text.push(drawn.token));
    }
    texts.iter().enumerate().for_each(|(i, text)| assert!(!texts[..i].contains(text), "{texts:?}"));

    // a choice alone draws the same text
    let mut alone = [run.sequence()];
    let mut drawn = run.step_with(&mut alone, &[prompt], &[row(prompt.len() - 1, prompt.len(), &all[2])]).unwrap();
    let mut text = vec![drawn[0].token];
    for position in prompt.len() + 1..prompt.len() + 12 {
        drawn = run.step_with(&mut alone, &[&[drawn[0].token]], &[row(0, position, &all[2])]).unwrap();
        text.push(drawn[0].token);
    }
    assert_eq!(text, texts[2]);
}

#[test]
fn penalties_and_masks_change_what_is_drawn() {
    let (truth, mut run) = (truth(), Run::new());
    let prompt = &truth.prompts[0];
    let (generated, second) = ([prompt.greedy[0].0], 30u32);
    let best = generated[0];
    let mask = |allowed: &[u32]| {
        let mut mask = vec![0u32; run.model.config().vocab.div_ceil(32)];
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
    let drawn = run.step_with(&mut [run.sequence()], &[&prompt.ids], &rows).unwrap();
    assert_eq!(drawn[0].token, best);
    assert_eq!((drawn[0].top.len(), drawn[0].top[0].0, drawn[0].top[0].1), (3, best, drawn[0].logprob));
    assert!([second, 40].contains(&drawn[1].token));
    assert!(drawn[2].token != best && (drawn[2].token as usize) < run.model.config().vocab);
    assert!(drawn[3].token as usize >= run.model.config().vocab, "no token is allowed, and the others go on");

    // a token outside of the vocabulary, and a row outside of the step, are refused
    let params = SamplingParams::default();
    let row = |row| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
    for (tokens, at) in [(&[49_152u32][..], 0), (&[u32::MAX], 0), (&[5], 1)] {
        let error = run.step_with(&mut [run.sequence()], &[tokens], &[row(at)]).unwrap_err();
        assert!(matches!(error, generate::Error::Step { .. }), "{error}");
    }
}
