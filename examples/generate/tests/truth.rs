//! The model against another program's forward pass: tokens, perplexities, logits, greedy texts.

#![allow(clippy::unwrap_used)]

mod support;

use support::{ROWS, Run, log_prob, truth};

#[test]
fn the_model_is_that_of_the_truth() {
    let (truth, mut run) = (truth(), Run::new());
    for text in &truth.texts {
        assert_eq!(run.tokenizer.encode(&text.text).unwrap(), text.ids);
        assert_eq!(run.tokenizer.decode(&text.ids), text.text);
        let (mut sequence, mut sum, mut last) = ([run.sequence()], 0.0, Vec::new());
        for (chunk, ids) in text.ids.chunks(ROWS).enumerate() {
            run.step(&mut sequence, &[ids], &(0..ids.len()).collect::<Vec<_>>());
            let logits = run.logits(ids.len());
            let next = &text.ids[chunk * ROWS + 1..];
            sum += logits.iter().zip(next).map(|(logits, &next)| log_prob(logits, next)).sum::<f64>();
            last = logits.last().unwrap().clone();
        }
        let perplexity = (-sum / (text.ids.len() - 1) as f64).exp();
        assert!((perplexity / text.perplexity - 1.0).abs() < 1e-4, "{perplexity} {}", text.perplexity);
        for &(token, logit) in &text.top5 {
            assert!((last[token as usize] - logit).abs() < 2e-3, "{} {logit}", last[token as usize]);
        }
    }
    let prompts: Vec<&[u32]> = truth.prompts.iter().map(|prompt| &prompt.ids[..]).collect();
    for prompt in &truth.prompts {
        assert_eq!(run.tokenizer.encode(&prompt.prompt).unwrap(), prompt.ids);
    }
    // each token of the truth is fed, so that one of a small margin does not change those after it
    let mut sequences: Vec<_> = prompts.iter().map(|_| run.sequence()).collect();
    let mut end = 0;
    let rows: Vec<usize> = prompts
        .iter()
        .map(|prompt| {
            end += prompt.len();
            end - 1
        })
        .collect();
    run.step(&mut sequences, &prompts, &rows);
    let mut worst = 0f32;
    for i in 0..truth.prompts[0].greedy.len() {
        let logits = run.logits(prompts.len());
        let mut new = Vec::new();
        for (prompt, logits) in truth.prompts.iter().zip(&logits) {
            let (token, logit, margin) = prompt.greedy[i];
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
            assert!(best == token as usize || margin < 0.05, "{:?}, token {i}: {best} not {token}", prompt.prompt);
            worst = worst.max((logits[token as usize] - logit).abs());
            new.push([token]);
        }
        run.step(&mut sequences, &new.iter().map(|new| &new[..]).collect::<Vec<_>>(), &[0, 1, 2, 3]);
    }
    assert!(worst < 5e-3, "{worst}");
    drop(sequences);
    assert_eq!(run.model_pages_used(), 0);
}
