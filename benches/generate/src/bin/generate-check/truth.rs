//! The truth: logits that a plain forward pass of other code made.

use std::{fs, path::Path};

use generate::{
    Error,
    model::{
        runner::log_prob,
        steps::{Steps, ends},
    },
};
use serde::Deserialize;

use super::{Options, STEP_SEQUENCES};

/// Texts and prompts.
#[derive(Debug, Deserialize)]
pub(crate) struct Truth {
    pub(crate) texts: Vec<Text>,
    pub(crate) prompts: Vec<Prompt>,
}

/// A text, its perplexity, and the largest logits after it.
#[derive(Debug, Deserialize)]
pub(crate) struct Text {
    pub(crate) ids: Vec<u32>,
    perplexity: f64,
    top5: Vec<(u32, f32)>,
}

/// A prompt and its most likely continuation: tokens with their logits, and the margins to the second.
#[derive(Debug, Deserialize)]
pub(crate) struct Prompt {
    pub(crate) ids: Vec<u32>,
    greedy: Vec<(u32, f32, f32)>,
}

impl Prompt {
    /// The prompt and all tokens of the continuation but the last.
    pub(crate) fn fed(&self) -> Vec<u32> {
        let more = self.greedy.iter().map(|&(token, ..)| token);
        self.ids.iter().copied().chain(more.take(self.greedy.len() - 1)).collect()
    }
}

impl Truth {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
    }
}

/// Compares with the truth; returns how many checks failed.
pub(crate) fn check(options: &Options, truth: &Truth) -> Result<usize, Error> {
    let mut steps = options.steps(false, true)?;
    println!("truth on {}", steps.llama.engine());
    let mut wrong = 0;
    for text in &truth.texts {
        let logits = steps.text(&text.ids, &[STEP_SEQUENCES])?;
        let of_next = logits
            .iter()
            .zip(&text.ids[1..])
            .map(|(logits, &next)| log_prob(logits, next as usize).map_or(f64::INFINITY, |x| -f64::from(x)));
        let perplexity = (of_next.sum::<f64>() / (text.ids.len() - 1) as f64).exp();
        let relative = perplexity / text.perplexity - 1.0;
        let last = &logits[logits.len() - 1];
        let error = text.top5.iter().map(|&(id, logit)| (last[id as usize] - logit).abs()).fold(0f32, f32::max);
        let margin = text.top5[0].1 - text.top5[1].1;
        let same = likeliest(last) == text.top5[0].0 || margin < options.margin;
        wrong +=
            [relative.abs() > options.perplexity, error > options.logits, !same].map(usize::from).iter().sum::<usize>();
        println!(
            "  text of {} tokens: perplexity {perplexity:.4}, {:+.4} % off; top-5 logits within {error:.4}",
            text.ids.len(),
            100.0 * relative
        );
    }
    let mut compared = Compared::default();
    for prompt in &truth.prompts {
        let logits = steps.text(&prompt.fed(), &[STEP_SEQUENCES])?;
        compared.add(prompt, logits[prompt.ids.len() - 1..].iter(), options.margin);
    }
    wrong += compared.report("prompts as prefill", options);
    wrong += decode(options, truth, &mut steps)?.report("prompts as decoding, together", options);
    Ok(wrong + greedy(options, truth, &mut steps)?)
}

/// Decodes all prompts together, by the tokens that are drawn. Returns how many texts leave the truth's where its
/// margin is not small.
fn greedy(options: &Options, truth: &Truth, steps: &mut Steps) -> Result<usize, Error> {
    let mut sequences: Vec<_> = truth.prompts.iter().map(|_| steps.sequence()).collect();
    let mut next: Vec<Vec<u32>> = truth.prompts.iter().map(|prompt| prompt.ids.clone()).collect();
    let mut texts: Vec<Vec<u32>> = vec![Vec::new(); next.len()];
    for _ in 0..truth.prompts[0].greedy.len() {
        let new: Vec<&[u32]> = next.iter().map(|new| &new[..]).collect();
        let sampled = steps.run(&mut sequences, &new, &ends(&new))?;
        for ((text, next), sampled) in texts.iter_mut().zip(&mut next).zip(sampled) {
            *next = vec![sampled.token];
            text.push(sampled.token);
        }
    }
    let mut wrong = 0;
    for (prompt, text) in truth.prompts.iter().zip(&texts) {
        let left = prompt.greedy.iter().zip(text).position(|(&(token, ..), &drawn)| token != drawn);
        let margin = left.map_or(0.0, |step| prompt.greedy[step].2);
        wrong += usize::from(margin > options.margin);
        if let Some(step) = left {
            println!("  a text leaves the truth's at token {step}, where the margin is {margin:.4}");
        }
    }
    println!("  greedy texts, drawn together: {wrong} of {} leave the truth's above the margin", texts.len());
    Ok(wrong)
}

/// Prefills all prompts, and decodes them together, a token of the truth at a time.
fn decode(options: &Options, truth: &Truth, steps: &mut Steps) -> Result<Compared, Error> {
    let mut sequences: Vec<_> = truth.prompts.iter().map(|_| steps.sequence()).collect();
    let prompts: Vec<&[u32]> = truth.prompts.iter().map(|prompt| &*prompt.ids).collect();
    let first = steps.logits(&mut sequences, &prompts, &ends(&prompts))?;
    let mut of_prompts: Vec<Vec<Vec<f32>>> = first.into_iter().map(|logits| vec![logits]).collect();
    for step in 0..truth.prompts[0].greedy.len() - 1 {
        let new: Vec<[u32; 1]> = truth.prompts.iter().map(|prompt| [prompt.greedy[step].0]).collect();
        let new: Vec<&[u32]> = new.iter().map(|new| &new[..]).collect();
        let logits = steps.logits(&mut sequences, &new, &ends(&new))?;
        of_prompts.iter_mut().zip(logits).for_each(|(of_prompt, logits)| of_prompt.push(logits));
    }
    let mut compared = Compared::default();
    truth.prompts.iter().zip(&of_prompts).for_each(|(p, logits)| compared.add(p, logits.iter(), options.margin));
    Ok(compared)
}

/// Tokens that were compared.
#[derive(Debug, Default)]
struct Compared {
    tokens: usize,
    same: usize,
    wrong: usize,
    /// The largest margin of the truth where another token was the best.
    widest: f32,
    /// The largest difference of a logit.
    error: f32,
}

impl Compared {
    fn add<'a>(&mut self, prompt: &Prompt, logits: impl Iterator<Item = &'a Vec<f32>>, margin: f32) {
        for (&(token, logit, lead), logits) in prompt.greedy.iter().zip(logits) {
            let same = likeliest(logits) == token;
            self.tokens += 1;
            self.same += usize::from(same);
            self.wrong += usize::from(!same && lead > margin);
            self.widest = self.widest.max(if same { 0.0 } else { lead });
            self.error = self.error.max((logits[token as usize] - logit).abs());
        }
    }

    fn report(&self, what: &str, options: &Options) -> usize {
        let Compared { tokens, same, wrong, widest, error } = self;
        println!(
            "  {what}: {same} of {tokens} tokens are the truth's, others within {widest:.4}; logits within {error:.4}"
        );
        wrong + usize::from(*error > options.logits)
    }
}

fn likeliest(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0) as u32
}
