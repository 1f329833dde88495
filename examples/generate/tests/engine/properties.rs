//! Random requests, cancellations, and engines: every text is that of its request alone, and no page leaks.

use std::{cell::RefCell, collections::BTreeMap};

use attn_cache::Token;
use generate::{
    engine::{EngineConfig, FinishReason, Refused, Request},
    model::{Endless, ModelLimits},
    sampling::SamplingParams,
};
use proptest::{prelude::*, test_runner::TestRunner};

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

fn case() -> impl Strategy<Value = Case> {
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

impl Case {
    /// Runs the case, and says how often something happened.
    fn run(&self) -> [(&'static str, u64); 7] {
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
        let happened = [
            ("preemptions", stats.preemptions),
            ("tokens found", stats.hit_tokens),
            ("right guesses", stats.accepted_tokens),
            ("wrong guesses", stats.guessed_tokens - stats.accepted_tokens),
            ("failures", stats.failed),
            ("page copies", world.engine.model().seen.lock().expect("no panic").copies as u64),
            ("cancelled", ends.filter(|end| **end == Some(FinishReason::Cancelled)).count() as u64),
        ];
        world.drop_engine();
        happened
    }
}

/// As many random cases as `PROPTEST_CASES` says, 3,000 by default: every text is that of its request alone.
#[test]
fn every_text_is_that_of_its_request_alone() {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 3000;
    }
    let all: RefCell<BTreeMap<&str, u64>> = RefCell::default();
    let ended = TestRunner::new(config).run(&case(), |case| {
        case.run().into_iter().for_each(|(what, count)| *all.borrow_mut().entry(what).or_default() += count);
        Ok(())
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
    let all = all.into_inner();
    assert!(all.values().all(|&count| count > 20), "the cases are too tame: {all:?}");
}
