//! What a benchmark says.

use std::{fmt, time::Duration};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use generate::engine::EngineStats;
use hdrhistogram::Histogram;
use serde::Serialize;

/// What was measured of one choice of a request. Times are since the scheduled arrival.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Until the first token.
    pub(crate) first: Duration,
    /// Until the last token.
    pub(crate) last: Duration,
    /// Between tokens, one less than there are.
    pub(crate) gaps: Vec<Duration>,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) choices: Vec<Record>,
    /// Tokens of the prompts of requests that ended well, and how many were cached.
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    /// Why requests failed.
    pub(crate) failures: Vec<String>,
    /// How late each request was handed to the engine, after its scheduled arrival.
    pub(crate) lateness: Vec<Duration>,
    /// From the first scheduled arrival to the last token.
    pub(crate) duration: Duration,
    /// What the engine counted before and after.
    pub(crate) stats: Option<(EngineStats, EngineStats)>,
}

/// What a table shows of a set of measurements, in their unit, to four digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Measurements.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// The summary of values of 0 and more; `None` if there are none.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        // thousandths of the unit
        let mut all = Histogram::<u64>::new(4).expect("digits that a histogram may have");
        values.for_each(|value| all += (1e3 * value).round() as u64);
        let of = |thousandths: u64| thousandths as f64 / 1e3;
        let quantile = |q: f64| of(all.value_at_quantile(q));
        (!all.is_empty()).then(|| Summary {
            count: all.len(),
            mean: all.mean() / 1e3,
            p50: quantile(0.50),
            p99: quantile(0.99),
            max: of(all.max()),
        })
    }
}

/// The results of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Requests that ended well.
    pub completed: usize,
    /// Why others failed, each reason once.
    pub failures: Vec<String>,
    /// Requests that failed.
    pub failed: usize,
    /// Seconds from the first scheduled arrival to the last token.
    pub duration_s: f64,
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
    /// Tokens of the prompts that were found in the prefix cache.
    pub cached_tokens: usize,
    /// Tokens that were generated, of all choices.
    pub output_tokens: usize,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Generated tokens per second, all requests together.
    pub output_tokens_per_s: f64,
    /// Generated tokens and tokens of prompts per second.
    pub total_tokens_per_s: f64,
    /// Time to the first token (TTFT) of each choice, from the scheduled arrival, in ms.
    pub ttft_ms: Option<Summary>,
    /// Every time between two tokens of a choice (ITL), in ms. Guesses that are accepted come at once.
    pub itl_ms: Option<Summary>,
    /// Mean time of a choice for each token after the first (TPOT), in ms.
    pub tpot_ms: Option<Summary>,
    /// Time from the scheduled arrival to the last token of a choice, in ms.
    pub latency_ms: Option<Summary>,
    /// Generated tokens of a choice per second of its latency.
    pub choice_tokens_per_s: Option<Summary>,
    /// How late the benchmark itself was to submit a request, in ms; it is part of the latencies.
    pub lateness_ms: Option<Summary>,
    /// Steps of the engine.
    pub steps: u64,
    /// Sequences that were computed again.
    pub preemptions: u64,
    /// Tokens that were guessed, and how many were right.
    pub guessed_tokens: u64,
    /// Guesses that were right.
    pub accepted_tokens: u64,
}

impl Report {
    pub(crate) fn of(records: Records) -> Self {
        let seconds = records.duration.as_secs_f64();
        let choices = &records.choices;
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let tokens = |choice: &Record| (choice.gaps.len() + 1) as f64;
        let output_tokens: usize = choices.iter().map(|choice| choice.gaps.len() + 1).sum();
        let failed = records.failures.len();
        let mut failures = records.failures;
        failures.sort();
        failures.dedup();
        let counted = |count: fn(&EngineStats) -> u64| {
            records.stats.as_ref().map_or(0, |(before, after)| count(after) - count(before))
        };
        let tpot = choices.iter().filter(|choice| !choice.gaps.is_empty());
        Report {
            completed: records.lateness.len() - failed,
            failures,
            failed,
            duration_s: seconds,
            prompt_tokens: records.prompt_tokens,
            cached_tokens: records.cached_tokens,
            output_tokens,
            requests_per_s: (records.lateness.len() - failed) as f64 / seconds,
            output_tokens_per_s: output_tokens as f64 / seconds,
            total_tokens_per_s: (output_tokens + records.prompt_tokens) as f64 / seconds,
            ttft_ms: Summary::of(choices.iter().map(|choice| ms(choice.first))),
            itl_ms: Summary::of(choices.iter().flat_map(|choice| choice.gaps.iter().map(|&gap| ms(gap)))),
            tpot_ms: Summary::of(tpot.map(|choice| ms(choice.last - choice.first) / choice.gaps.len() as f64)),
            latency_ms: Summary::of(choices.iter().map(|choice| ms(choice.last))),
            choice_tokens_per_s: Summary::of(choices.iter().map(|choice| tokens(choice) / choice.last.as_secs_f64())),
            lateness_ms: Summary::of(records.lateness.iter().map(|&late| ms(late))),
            steps: counted(|stats| stats.steps),
            preemptions: counted(|stats| stats.preemptions),
            guessed_tokens: counted(|stats| stats.guessed_tokens),
            accepted_tokens: counted(|stats| stats.accepted_tokens),
        }
    }
}

/// A table of latencies, and lines of counts.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header(["", "mean", "p50", "p99", "max"]);
        let rows = [
            ("time to first token, ms", self.ttft_ms),
            ("inter-token latency, ms", self.itl_ms),
            ("time per output token, ms", self.tpot_ms),
            ("latency of a choice, ms", self.latency_ms),
            ("tokens/s of a choice", self.choice_tokens_per_s),
            ("lateness of the benchmark, ms", self.lateness_ms),
        ];
        for (name, summary) in rows {
            let cells = summary.map_or([f64::NAN; 4], |summary| [summary.mean, summary.p50, summary.p99, summary.max]);
            let cells = cells.map(|value| if value.is_nan() { "-".into() } else { format!("{value:.2}") });
            table.add_row([&[name.to_owned()], &cells[..]].concat());
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "{} requests in {:.2} s ({:.2}/s), {} failed",
            self.completed, self.duration_s, self.requests_per_s, self.failed
        )?;
        writeln!(
            f,
            "{} output tokens ({:.1}/s), {} prompt tokens, {} of them cached; {:.1} tokens/s together",
            self.output_tokens,
            self.output_tokens_per_s,
            self.prompt_tokens,
            self.cached_tokens,
            self.total_tokens_per_s
        )?;
        write!(f, "{} steps, {} preemptions", self.steps, self.preemptions)?;
        if self.guessed_tokens > 0 {
            write!(f, ", {} of {} guesses right", self.accepted_tokens, self.guessed_tokens)?;
        }
        self.failures.iter().try_for_each(|failure| write!(f, "\nfailed: {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn figures_follow_from_the_records() {
        let choice = |first, gaps: &[u64]| Record {
            first: ms(first),
            last: ms(first + gaps.iter().sum::<u64>()),
            gaps: gaps.iter().map(|&gap| ms(gap)).collect(),
        };
        let report = Report::of(Records {
            choices: vec![choice(10, &[5, 15]), choice(30, &[])],
            prompt_tokens: 100,
            cached_tokens: 40,
            failures: vec!["no".into(), "no".into()],
            lateness: vec![ms(0); 4],
            duration: ms(500),
            stats: None,
        });
        assert_eq!((report.completed, report.failed, report.failures.len(), report.output_tokens), (2, 2, 1, 4));
        assert_eq!((report.output_tokens_per_s, report.total_tokens_per_s, report.requests_per_s), (8.0, 208.0, 4.0));
        let mean = |summary: Option<Summary>| summary.expect("values").mean;
        let close = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-4, "{value} {expected}");
        close(mean(report.ttft_ms), 20.0);
        close(mean(report.itl_ms), 10.0);
        close(mean(report.tpot_ms), 10.0);
        close(mean(report.latency_ms), 30.0);
        // 3 tokens in 30 ms, and 1 in 30 ms
        close(mean(report.choice_tokens_per_s), (100.0 + 1000.0 / 30.0) / 2.0);
        let text = report.to_string();
        assert!(text.contains("| time to first token, ms ") && text.contains("2 failed"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn nothing_measured_is_no_panic() {
        let report = Report::of(Records { duration: ms(1), ..Records::default() });
        assert_eq!((report.completed, report.itl_ms), (0, None));
        assert!(report.to_string().contains(" - "));
    }
}
