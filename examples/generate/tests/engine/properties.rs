//! Random requests, cancellations, and engines: every text is that of its request alone, and no page leaks.

use attn_cache::Token;
use generate::{
    engine::{EngineConfig, FinishReason, Refused, Request},
    model::{Endless, ModelLimits},
    sampling::SamplingParams,
};
use proptest::prelude::*;

use crate::{
    fake::{FAILS, FakeModel, NOT_FINITE, limits},
    world::World,
};

#[derive(Clone, Debug)]
enum Op {
    Submit(Request),
    Steps(usize),
    Cancel(usize),
}

#[derive(Clone, Debug)]
struct Case {
    limits: ModelLimits,
    pages: usize,
    page_size: usize,
    config: EngineConfig,
    ops: Vec<Op>,
}

/// Prompts begin with one of a few texts, so that they share prefixes of many lengths.
fn prompt() -> impl Strategy<Value = Vec<Token>> {
    let fault = prop::option::weighted(0.04, prop_oneof![Just(FAILS), Just(NOT_FINITE)]);
    (0u32..3, 0usize..40, prop::collection::vec(1u32..50, 1..12), fault).prop_map(|(base, shared, own, fault)| {
        let base = (0..shared as u32).map(|i| 1 + (i * (base + 3) + i / 7) % 50);
        base.chain(own).chain(fault).collect()
    })
}

fn request() -> impl Strategy<Value = Request> {
    let endless = prop::option::weighted(0.15, (0usize..9, 1usize..30));
    let namespace = prop::option::weighted(0.2, Just("tenant".to_owned()));
    let flags = (any::<bool>(), any::<bool>(), namespace, endless, prop::bool::weighted(0.2));
    (prompt(), 1usize..40, 1usize..4, 0u64..4, 0usize..5, flags).prop_map(
        |(prompt, max_tokens, choices, seed, speculate, (ignore_eos, greedy, namespace, endless, score_prompt))| {
            let temperature = if greedy { 0.0 } else { 1.0 };
            Request {
                sampling: SamplingParams { temperature, seed, ..SamplingParams::default() },
                choices,
                ignore_eos,
                stop_tokens: vec![7],
                namespace,
                speculate,
                score_prompt,
                endless: endless.map(|(sinks, window)| Endless { sinks, window }),
                ..Request::new(prompt, max_tokens)
            }
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => request().prop_map(Op::Submit),
        5 => (1usize..8).prop_map(Op::Steps),
        1 => any::<prop::sample::Index>().prop_map(|index| Op::Cancel(index.index(64))),
    ]
}

pub(crate) fn case() -> impl Strategy<Value = impl std::fmt::Debug + Clone + Run> {
    let shape = (1usize..7, 4usize..60, 20usize..100, 4usize..40, 1usize..8);
    let config = (1usize..20, any::<bool>(), any::<bool>(), any::<bool>(), 0.0f32..0.3);
    (shape, config, prop::collection::vec(op(), 1..40)).prop_map(|(shape, config, ops)| {
        let (page_size, pages, context, step_tokens, step_sequences) = shape;
        let (chunk_tokens, batch_invariant, reuse_prefixes, cascade, watermark) = config;
        let config =
            EngineConfig { chunk_tokens, batch_invariant, reuse_prefixes, cascade, watermark, ..Default::default() };
        Case { limits: limits(context, step_tokens, step_sequences), pages, page_size, config, ops }
    })
}

/// How often something happened in random cases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    pub(crate) preemptions: u64,
    pub(crate) hit_tokens: u64,
    pub(crate) right_guesses: u64,
    pub(crate) wrong_guesses: u64,
    pub(crate) failures: u64,
    pub(crate) page_copies: u64,
    pub(crate) cancelled: u64,
}

impl Happened {
    pub(crate) fn add(&mut self, other: Happened) {
        self.preemptions += other.preemptions;
        self.hit_tokens += other.hit_tokens;
        self.right_guesses += other.right_guesses;
        self.wrong_guesses += other.wrong_guesses;
        self.failures += other.failures;
        self.page_copies += other.page_copies;
        self.cancelled += other.cancelled;
    }
}

pub(crate) trait Run {
    fn run(&self) -> Happened;
}

impl Run for Case {
    fn run(&self) -> Happened {
        let mut model = FakeModel::new(self.limits, self.pages, self.page_size);
        if self.config.batch_invariant {
            let sequences = self.limits.step_sequences.min(self.limits.step_tokens);
            model = model.with_borders(self.config.chunk_tokens.min(self.limits.step_tokens + 1 - sequences));
        }
        let mut world = World::new(model, self.config);
        for op in &self.ops {
            match op {
                Op::Submit(request) => match world.submit(request.clone()) {
                    Ok(_) => {}
                    Err(Refused::PromptTooLong { .. } | Refused::NeverFits { .. }) => {}
                    Err(Refused::Endless { .. }) if request.endless.is_some() => {}
                    Err(Refused::Count { .. })
                        if request.choices + usize::from(request.score_prompt) > self.limits.step_sequences => {}
                    Err(other) => panic!("{other}: {request:?}"),
                },
                Op::Steps(steps) => (0..*steps).for_each(|_| world.step()),
                Op::Cancel(index) => {
                    if let Some(told) = world.told.get(*index) {
                        world.engine.cancel(told.id);
                    }
                }
            }
        }
        world.finish();
        let (stats, ends) = (world.engine.stats(), world.told.iter().flat_map(|told| &told.ends));
        let happened = Happened {
            preemptions: stats.preemptions,
            hit_tokens: stats.hit_tokens,
            right_guesses: stats.accepted_tokens,
            wrong_guesses: stats.guessed_tokens - stats.accepted_tokens,
            failures: stats.failed,
            page_copies: world.engine.model().seen.lock().expect("no panic").copies as u64,
            cancelled: ends.filter(|end| **end == Some(FinishReason::Cancelled)).count() as u64,
        };
        world.drop_engine();
        happened
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_that_of_its_request_alone(case in case()) {
        case.run();
    }
}
