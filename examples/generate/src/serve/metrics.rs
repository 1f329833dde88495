//! What Prometheus reads: counts of the engine and latencies of requests.

use std::{fmt, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::engine::EngineStats;

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
    engine: EngineGauges,
}

/// Values of [`EngineStats`], which are set when they are read.
#[derive(Default)]
struct EngineGauges {
    running: Gauge,
    waiting: Gauge,
    pages_used: Gauge,
    pages_free: Gauge,
    pages_evictable: Gauge,
    steps: Gauge,
    computed: Gauge,
    hits: Gauge,
    looked_up: Gauge,
    preemptions: Gauge,
    guessed: Gauge,
    accepted: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        // 0.1 ms to 13 s for a token, 1 ms to 131 s for what waits
        let short = || Histogram::new(exponential_buckets(1e-4, 2.0, 18));
        let long = || Histogram::new(exponential_buckets(1e-3, 2.0, 18));
        let metrics = Metrics {
            registry: Registry::with_prefix("generate"),
            answers: Family::default(),
            ends: Family::default(),
            prompt: Counter::default(),
            cached: Counter::default(),
            generated: Counter::default(),
            first_token: long(),
            inter_token: short(),
            duration: long(),
            engine: EngineGauges::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let engine = &self.engine;
        let gauges = [
            ("running", "Sequences that run", &engine.running),
            ("waiting", "Requests and preempted choices that wait", &engine.waiting),
            ("pages_used", "Pages that sequences or the prefix cache hold", &engine.pages_used),
            ("pages_free", "Pages that nothing holds", &engine.pages_free),
            ("pages_evictable", "Pages that the prefix cache would give", &engine.pages_evictable),
            ("engine_steps", "Steps so far", &engine.steps),
            ("engine_computed_tokens", "Tokens that were computed so far", &engine.computed),
            ("prefix_hit_tokens", "Tokens of prompts that were found in the prefix cache so far", &engine.hits),
            ("prefix_looked_up_tokens", "Tokens of prompts that were looked up so far", &engine.looked_up),
            ("preemptions", "Sequences that were computed again so far", &engine.preemptions),
            ("guessed_tokens", "Tokens that were guessed so far", &engine.guessed),
            ("accepted_tokens", "Guesses that were right so far", &engine.accepted),
        ];
        for (name, help, gauge) in gauges {
            self.registry.register(name, help, gauge.clone());
        }
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
        self
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
    pub(crate) fn encode(&self, stats: &EngineStats) -> String {
        let engine = &self.engine;
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&engine.running, stats.running as u64);
        set(&engine.waiting, stats.waiting as u64);
        set(&engine.pages_used, stats.pages.used as u64);
        set(&engine.pages_free, stats.pages.free as u64);
        set(&engine.pages_evictable, stats.pages.evictable as u64);
        set(&engine.steps, stats.steps);
        set(&engine.computed, stats.computed_tokens);
        set(&engine.hits, stats.hit_tokens);
        set(&engine.looked_up, stats.looked_up_tokens);
        set(&engine.preemptions, stats.preemptions);
        set(&engine.guessed, stats.guessed_tokens);
        set(&engine.accepted, stats.accepted_tokens);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes all text");
        text
    }
}
