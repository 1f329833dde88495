//! Traces: when requests arrive, and how long they are.

use std::{ops::RangeInclusive, time::Duration};

use anyhow::{Result, ensure};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Exp, LogNormal};
use serde::Serialize;

/// How many tokens requests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Lengths {
    /// Log-normal lengths with the means of ShareGPT: 215 tokens of prompt, 197 to generate.
    //
    // `vllm bench serve` keeps pairs with a prompt of at most 1,024 tokens, a sum of at most 2,048 and at least four
    // tokens each; its 1,000 pairs have 215,196 prompt tokens and about 197,100 generated ones. Draws outside of these
    // bounds are drawn again here too. The standard deviations of the logarithms, 1.4 and 1.1, are a choice of ours for
    // the heavy tails of conversations; the means of the logarithms, 5.02 and 4.76, give those averages after the
    // bounds.
    Sharegpt,
    /// Prompts of 512 to 2048 tokens, as in FlashInfer's evaluation, --output tokens to generate.
    Uniform,
    /// --input tokens of prompt, --output tokens to generate.
    Fixed,
}

/// Tokens of a prompt, and of a prompt with its output, that the ShareGPT sample keeps.
const SHAREGPT: (RangeInclusive<f64>, f64) = (4.0..=1024.0, 2048.0);
/// Tokens of a uniform prompt.
const UNIFORM: RangeInclusive<usize> = 512..=2048;

/// What a trace is drawn from.
#[derive(Clone, Debug, PartialEq, clap::Args, Serialize)]
pub struct TraceOptions {
    /// Lengths of prompts and texts.
    #[arg(long = "trace", value_enum, default_value = "sharegpt")]
    pub lengths: Lengths,
    /// Requests.
    #[arg(long, default_value_t = 64)]
    pub requests: usize,
    /// Requests per second, at random times (Poisson); by default all come at once.
    #[arg(long, value_name = "PER SECOND")]
    pub rate: Option<f64>,
    /// Tokens of a prompt, for --trace fixed.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    pub input: usize,
    /// Tokens to generate, for --trace uniform and fixed.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    pub output: usize,
    /// Tokens that all prompts begin with, beside their own.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub shared_prefix: usize,
    /// Texts of each request. More than one is drawn at temperature 1, and one is greedy.
    #[arg(short = 'n', long, value_name = "TEXTS", default_value_t = 1)]
    pub choices: usize,
    /// The seed of the trace.
    #[arg(long = "trace-seed", value_name = "TRACE_SEED", default_value_t = 0)]
    pub seed: u64,
}

impl TraceOptions {
    /// Draws the tokens of a prompt and of its output.
    fn draw_lengths(&self, rng: &mut SmallRng) -> (usize, usize) {
        match self.lengths {
            Lengths::Sharegpt => loop {
                let prompt = LogNormal::new(5.02f64, 1.4).expect("a finite deviation").sample(rng).round();
                let output = LogNormal::new(4.76f64, 1.1).expect("a finite deviation").sample(rng).round();
                if SHAREGPT.0.contains(&prompt) && output >= 4.0 && prompt + output <= SHAREGPT.1 {
                    return (prompt as usize, output as usize);
                }
            },
            Lengths::Uniform => (rng.random_range(UNIFORM), self.output),
            Lengths::Fixed => (self.input, self.output),
        }
    }

    /// The most tokens that a request can have.
    fn longest(&self) -> usize {
        let own = match self.lengths {
            Lengths::Sharegpt => SHAREGPT.1 as usize,
            Lengths::Uniform => UNIFORM.end() + self.output,
            Lengths::Fixed => self.input + self.output,
        };
        own + self.shared_prefix
    }

    /// Draws a trace of tokens below `vocab`, for a model with `context` tokens.
    ///
    /// # Errors
    ///
    /// Options that describe no trace, and requests that would not fit into the context.
    pub fn draw(&self, vocab: usize, context: usize) -> Result<Vec<Arrival>> {
        ensure!(self.requests > 0 && self.choices > 0, "a trace has at least one request with one choice");
        let has_tokens = self.input > 0 && self.output > 0;
        ensure!(has_tokens, "a request has at least one token of prompt and one of output");
        let longest = self.longest();
        ensure!(longest <= context, "requests of up to {longest} tokens; the model has a context of {context}");
        let rate = self.rate.unwrap_or(1.0);
        let is_rate = rate > 0.0 && rate.is_finite();
        ensure!(is_rate, "a rate of {rate} requests per second; it must be positive and finite");
        let gaps = Exp::new(rate)?;
        let mut rng = SmallRng::seed_from_u64(self.seed);
        // low ids are control tokens in many vocabularies
        let first = 256.min(vocab as u32 / 2);
        let tokens =
            |rng: &mut SmallRng, count| (0..count).map(|_| rng.random_range(first..vocab as u32)).collect::<Vec<_>>();
        let shared = tokens(&mut rng, self.shared_prefix);
        let mut at = Duration::ZERO;
        let mut trace = Vec::with_capacity(self.requests);
        for _ in 0..self.requests {
            if self.rate.is_some() {
                at += Duration::from_secs_f64(gaps.sample(&mut rng));
            }
            let (length, output) = self.draw_lengths(&mut rng);
            let prompt = [&shared[..], &tokens(&mut rng, length)].concat();
            trace.push(Arrival { at, prompt, output });
        }
        Ok(trace)
    }
}

/// A request of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When it arrives, since the start.
    pub at: Duration,
    /// Its prompt.
    pub prompt: Vec<u32>,
    /// Tokens to generate.
    pub output: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(lengths: Lengths) -> TraceOptions {
        TraceOptions { lengths, requests: 4000, rate: None, input: 3, output: 2, shared_prefix: 0, choices: 1, seed: 1 }
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len();
        values.sum::<f64>() / count as f64
    }

    #[test]
    fn sharegpt_has_the_means_of_the_sample() {
        let trace = options(Lengths::Sharegpt).draw(49152, 8192).expect("a trace");
        let (prompt, output) =
            (mean(trace.iter().map(|r| r.prompt.len() as f64)), mean(trace.iter().map(|r| r.output as f64)));
        // the standard errors of 4,000 draws are 3.5 and 3.6 tokens
        assert!((prompt - 215.2).abs() < 12.0, "{prompt}");
        assert!((output - 197.1).abs() < 12.0, "{output}");
        assert!(trace.iter().all(|r| r.prompt.len() <= 1024 && r.prompt.len() + r.output <= 2048));
        assert!(trace.iter().all(|r| r.prompt.iter().all(|&token| (256..49152).contains(&token))));
    }

    #[test]
    fn poisson_arrivals_have_their_rate() {
        let trace = TraceOptions { rate: Some(20.0), ..options(Lengths::Fixed) }.draw(100, 64).expect("a trace");
        let gaps: Vec<f64> = trace.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let of_gaps = mean(gaps.iter().copied());
        let deviation = mean(gaps.iter().map(|gap| (gap - of_gaps).powi(2))).sqrt();
        assert!((of_gaps - 0.05).abs() < 0.004, "{of_gaps}");
        // the deviation of exponential gaps is their mean
        assert!((deviation / of_gaps - 1.0).abs() < 0.1, "{deviation}");
    }

    #[test]
    fn seeds_decide_and_prefixes_are_shared() {
        let options = TraceOptions { requests: 20, shared_prefix: 7, ..options(Lengths::Uniform) };
        let trace = options.draw(1000, 4096).expect("a trace");
        assert_eq!(trace, options.draw(1000, 4096).expect("a trace"));
        assert_ne!(trace, TraceOptions { seed: 2, ..options }.draw(1000, 4096).expect("a trace"));
        assert!(trace.iter().all(|r| r.prompt[..7] == trace[0].prompt[..7] && r.at.is_zero()));
        assert!(trace.iter().all(|r| (519..=2055).contains(&r.prompt.len())));
    }

    #[test]
    fn bad_options_are_refused() {
        let fixed = options(Lengths::Fixed);
        let cases = [
            (TraceOptions { requests: 0, ..fixed.clone() }, "at least one request"),
            (TraceOptions { input: 63, ..fixed.clone() }, "context of 64"),
            (TraceOptions { rate: Some(0.0), ..fixed.clone() }, "positive"),
            (TraceOptions { rate: Some(f64::NAN), ..fixed.clone() }, "positive"),
            (TraceOptions { input: 0, ..fixed }, "at least one token"),
        ];
        for (options, expected) in cases {
            let message = options.draw(100, 64).expect_err("refused").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
