//! What Prometheus reads: counts of the engine and latencies of requests.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text::encode},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::ConstGauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::engine::EngineHandle;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    path: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    reason: &'static str,
}

/// The metrics of a server. Times are in seconds.
pub(crate) struct Metrics {
    registry: Registry,
    answers: Family<Answer, Counter>,
    ends: Family<End, Counter>,
    prompt: Counter,
    cached: Counter,
    generated: Counter,
    first_token: Histogram,
    inter_token: Histogram,
    duration: Histogram,
}

/// The counts of an engine, which are read when they are asked for.
#[derive(Debug)]
struct EngineCounts(EngineHandle);

impl Collector for EngineCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        let pages = stats.pages;
        for (name, help, value) in [
            ("running", "Sequences that run", stats.running as u64),
            ("waiting", "Requests and preempted choices that wait", stats.waiting as u64),
            ("pages_used", "Pages that sequences or the prefix cache hold", pages.used as u64),
            ("pages_free", "Pages that nothing holds", pages.free as u64),
            ("pages_evictable", "Pages that the prefix cache would give", pages.evictable as u64),
            ("engine_steps", "Steps so far", stats.steps),
            ("engine_computed_tokens", "Tokens that were computed so far", stats.computed_tokens),
            ("prefix_hit_tokens", "Tokens of prompts that were found in the prefix cache so far", stats.hit_tokens),
            ("prefix_looked_up_tokens", "Tokens of prompts that were looked up so far", stats.looked_up_tokens),
            ("preemptions", "Sequences that were computed again so far", stats.preemptions),
            ("guessed_tokens", "Tokens that were guessed so far", stats.guessed_tokens),
            ("accepted_tokens", "Guesses that were right so far", stats.accepted_tokens),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            // texts of OpenMetrics end their help with a point, which a registry adds
            let help = format!("{help}.");
            gauge.encode(encoder.encode_descriptor(name, &help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

impl Metrics {
    pub(crate) fn new(engine: EngineHandle) -> Self {
        // 0.1 ms to 13 s for a token, 1 ms to 131 s for what waits
        let short = || Histogram::new(exponential_buckets(1e-4, 2.0, 18));
        let long = || Histogram::new(exponential_buckets(1e-3, 2.0, 18));
        let mut metrics = Metrics {
            registry: Registry::with_prefix("generate"),
            answers: Family::default(),
            ends: Family::default(),
            prompt: Counter::default(),
            cached: Counter::default(),
            generated: Counter::default(),
            first_token: long(),
            inter_token: short(),
            duration: long(),
        };
        metrics.register(engine);
        metrics
    }

    fn register(&mut self, engine: EngineHandle) {
        self.registry.register_collector(Box::new(EngineCounts(engine)));
        let counters = [
            ("prompt_tokens", "Tokens of prompts that were taken", &self.prompt),
            ("cached_prompt_tokens", "Tokens of prompts whose keys were cached", &self.cached),
            ("generated_tokens", "Tokens that were generated for clients", &self.generated),
        ];
        for (name, help, counter) in counters {
            self.registry.register(name, help, counter.clone());
        }
        let histograms = [
            ("time_to_first_token_seconds", "From the request to the first token of a choice", &self.first_token),
            ("inter_token_latency_seconds", "Between two tokens of a choice", &self.inter_token),
            ("request_duration_seconds", "From the request to the end of a choice", &self.duration),
        ];
        for (name, help, histogram) in histograms {
            self.registry.register(name, help, histogram.clone());
        }
        self.registry.register("http_responses", "Answers by path and status", self.answers.clone());
        self.registry.register("choices_finished", "Choices that ended, by reason", self.ends.clone());
    }

    pub(crate) fn answered(&self, path: &str, status: u16) {
        self.answers.get_or_create(&Answer { path: path.to_owned(), status }).inc();
    }

    pub(crate) fn prompt_tokens(&self, tokens: usize) {
        self.prompt.inc_by(tokens as u64);
    }

    pub(crate) fn cached_tokens(&self, tokens: usize) {
        self.cached.inc_by(tokens as u64);
    }

    pub(crate) fn first_token(&self, after: Duration) {
        self.generated.inc();
        self.first_token.observe(after.as_secs_f64());
    }

    pub(crate) fn next_token(&self, after: Duration) {
        self.generated.inc();
        self.inter_token.observe(after.as_secs_f64());
    }

    pub(crate) fn finished(&self, reason: &'static str, after: Duration) {
        self.ends.get_or_create(&End { reason }).inc();
        self.duration.observe(after.as_secs_f64());
    }

    /// The text that Prometheus reads.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes all text");
        text
    }
}
