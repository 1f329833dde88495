//! Traces: when requests arrive, and how long they are.

use std::{ops::RangeInclusive, time::Duration};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Exp, LogNormal};
use serde::Serialize;

use crate::Error;

/// How many tokens requests have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Lengths {
    /// Log-normal lengths with the means of the ShareGPT sample of vLLM's benchmark.
    ///
    /// `vllm bench serve` keeps pairs with a prompt of at most 1,024 tokens, a sum of at most 2,048 and at least four
    /// tokens each; its 1,000 pairs have 215,196 prompt tokens and about 197,100 generated ones. Draws outside of
    /// these bounds are drawn again here too. The standard deviations of the logarithms, 1.4 and 1.1, are a choice of
    /// ours for the heavy tails of conversations; the means of the logarithms, 5.02 and 4.76, give those averages
    /// after the bounds.
    Sharegpt,
    /// Prompt lengths uniform in the range, as in FlashInfer's evaluation (512 to 2048); `output` tokens each.
    Uniform {
        /// The shortest prompt.
        low: usize,
        /// The longest prompt.
        high: usize,
        /// Tokens to generate.
        output: usize,
    },
    /// The same lengths for all requests.
    Fixed {
        /// Tokens of a prompt.
        prompt: usize,
        /// Tokens to generate.
        output: usize,
    },
}

/// Tokens of a prompt, and of a prompt with its output, that the ShareGPT sample keeps.
const SHAREGPT: (RangeInclusive<f64>, f64) = (4.0..=1024.0, 2048.0);

impl Lengths {
    /// Draws the tokens of a prompt and of its output.
    fn draw(&self, rng: &mut SmallRng) -> (usize, usize) {
        match *self {
            Lengths::Sharegpt => loop {
                let prompt = LogNormal::new(5.02f64, 1.4).expect("a finite deviation").sample(rng).round();
                let output = LogNormal::new(4.76f64, 1.1).expect("a finite deviation").sample(rng).round();
                if SHAREGPT.0.contains(&prompt) && output >= 4.0 && prompt + output <= SHAREGPT.1 {
                    return (prompt as usize, output as usize);
                }
            },
            Lengths::Uniform { low, high, output } => (rng.random_range(low..=high), output),
            Lengths::Fixed { prompt, output } => (prompt, output),
        }
    }

    /// The most tokens that a request can have.
    fn longest(&self) -> usize {
        match *self {
            Lengths::Sharegpt => SHAREGPT.1 as usize,
            Lengths::Uniform { high, output, .. } => high + output,
            Lengths::Fixed { prompt, output } => prompt + output,
        }
    }
}

/// What a trace is drawn from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceOptions {
    /// Requests.
    pub requests: usize,
    /// Lengths of prompts and outputs.
    pub lengths: Lengths,
    /// Requests per second of a Poisson process; `None`: all requests arrive at once.
    pub rate: Option<f64>,
    /// Tokens that the prompts of all requests begin with, as a system prompt; added to the drawn length.
    pub shared_prefix: usize,
    /// Choices of each request. More than one is drawn at temperature 1, and one is greedy.
    pub choices: usize,
    /// Tokens to guess ahead by prompt lookup.
    pub speculate: usize,
    /// The same seed gives the same trace.
    pub seed: u64,
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

/// Draws a trace of tokens below `vocab`, for a model with `context` tokens.
///
/// # Errors
///
/// Options that describe no trace, and requests that would not fit into the context.
pub fn draw(options: &TraceOptions, vocab: usize, context: usize) -> Result<Vec<Arrival>, Error> {
    let refuse = |what: String| Err(Error::Bench { what });
    let longest = options.lengths.longest() + options.shared_prefix;
    if options.requests == 0 || options.choices == 0 {
        return refuse("a trace has at least one request with one choice".into());
    }
    if let Lengths::Uniform { low: prompt, output, .. } | Lengths::Fixed { prompt, output } = options.lengths
        && (prompt == 0 || output == 0)
    {
        return refuse("a request has at least one token of prompt and one of output".into());
    }
    if let Lengths::Uniform { low, high, .. } = options.lengths
        && low > high
    {
        return refuse(format!("prompts of {low} to {high} tokens: the first must be the smaller one"));
    }
    if longest > context {
        return refuse(format!("requests of up to {longest} tokens; the model has a context of {context}"));
    }
    let arrivals = match options.rate {
        None => None,
        Some(rate) => match Exp::new(rate) {
            Ok(gaps) if rate > 0.0 && rate.is_finite() => Some(gaps),
            _ => return refuse(format!("a rate of {rate} requests per second; it must be positive and finite")),
        },
    };
    let mut rng = SmallRng::seed_from_u64(options.seed);
    // low ids are control tokens in many vocabularies
    let first = 256.min(vocab as u32 / 2);
    let tokens =
        |rng: &mut SmallRng, count| (0..count).map(|_| rng.random_range(first..vocab as u32)).collect::<Vec<_>>();
    let shared = tokens(&mut rng, options.shared_prefix);
    let mut at = Duration::ZERO;
    let mut trace = Vec::with_capacity(options.requests);
    for _ in 0..options.requests {
        if let Some(gaps) = &arrivals {
            at += Duration::from_secs_f64(gaps.sample(&mut rng));
        }
        let (length, output) = options.lengths.draw(&mut rng);
        let prompt = [&shared[..], &tokens(&mut rng, length)].concat();
        trace.push(Arrival { at, prompt, output });
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(lengths: Lengths) -> TraceOptions {
        TraceOptions { requests: 4000, lengths, rate: None, shared_prefix: 0, choices: 1, speculate: 0, seed: 1 }
    }

    fn mean(values: impl Iterator<Item = usize>) -> f64 {
        let values: Vec<usize> = values.collect();
        values.iter().sum::<usize>() as f64 / values.len() as f64
    }

    #[test]
    fn sharegpt_has_the_means_of_the_sample() {
        let trace = draw(&options(Lengths::Sharegpt), 49152, 8192).expect("a trace");
        let (prompt, output) = (mean(trace.iter().map(|r| r.prompt.len())), mean(trace.iter().map(|r| r.output)));
        // the standard errors of 4,000 draws are 3.5 and 3.6 tokens
        assert!((prompt - 215.2).abs() < 12.0, "{prompt}");
        assert!((output - 197.1).abs() < 12.0, "{output}");
        assert!(trace.iter().all(|r| r.prompt.len() <= 1024 && r.prompt.len() + r.output <= 2048));
        assert!(trace.iter().all(|r| r.prompt.iter().all(|&token| (256..49152).contains(&token))));
    }

    #[test]
    fn poisson_arrivals_have_their_rate() {
        let lengths = Lengths::Fixed { prompt: 3, output: 2 };
        let trace = draw(&TraceOptions { rate: Some(20.0), ..options(lengths) }, 100, 64).expect("a trace");
        let gaps: Vec<f64> = trace.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean - 0.05).abs() < 0.004, "{mean}");
        // the deviation of exponential gaps is their mean
        assert!((deviation / mean - 1.0).abs() < 0.1, "{deviation}");
    }

    #[test]
    fn seeds_decide_and_prefixes_are_shared() {
        let uniform = Lengths::Uniform { low: 512, high: 2048, output: 16 };
        let options = TraceOptions { requests: 20, shared_prefix: 7, ..options(uniform) };
        let trace = draw(&options, 1000, 4096).expect("a trace");
        assert_eq!(trace, draw(&options, 1000, 4096).expect("a trace"));
        assert_ne!(trace, draw(&TraceOptions { seed: 2, ..options }, 1000, 4096).expect("a trace"));
        assert!(trace.iter().all(|r| r.prompt[..7] == trace[0].prompt[..7] && r.at.is_zero()));
        assert!(trace.iter().all(|r| (519..=2055).contains(&r.prompt.len())));
    }

    #[test]
    fn bad_options_are_refused() {
        let fixed = Lengths::Fixed { prompt: 60, output: 10 };
        let cases = [
            (TraceOptions { requests: 0, ..options(fixed) }, "at least one request"),
            (options(fixed), "context of 64"),
            (TraceOptions { rate: Some(0.0), ..options(Lengths::Fixed { prompt: 1, output: 1 }) }, "positive"),
            (TraceOptions { rate: Some(f64::NAN), ..options(Lengths::Fixed { prompt: 1, output: 1 }) }, "positive"),
            (options(Lengths::Fixed { prompt: 0, output: 1 }), "at least one token"),
            (options(Lengths::Uniform { low: 9, high: 8, output: 1 }), "smaller"),
        ];
        for (options, expected) in cases {
            let message = draw(&options, 100, 64).expect_err("refused").to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
