//! Requests that are not run.

use attn_cache::Token;
use generate::{
    engine::{EngineConfig, Refused, Request},
    model::{Endless, ModelLimits},
    sampling::SamplingParams,
};

use crate::{
    fake::{FakeModel, VOCAB, limits},
    world::World,
};

fn refused(request: Request) -> Refused {
    let mut world = World::new(FakeModel::new(limits(64, 16, 4), 10, 4), EngineConfig::default());
    let refused = world.submit(request).expect_err("a bad request");
    assert!(world.engine.is_idle());
    assert_eq!(world.engine.stats().pages.used, 0);
    refused
}

fn with(sampling: SamplingParams) -> Request {
    Request { sampling, ..Request::new([1, 2, 3], 4) }
}

#[test]
fn prompts_have_tokens_of_the_vocabulary() {
    assert_eq!(refused(Request::new([], 4)), Refused::EmptyPrompt);
    let outside = |what, token: Token| Refused::TokenOutsideVocabulary { what, token, vocab: VOCAB };
    assert_eq!(refused(Request::new([1, VOCAB as u32], 4)), outside("the prompt", VOCAB as u32));
    assert_eq!(refused(Request::new([1, u32::MAX], 4)), outside("the prompt", u32::MAX));
    let stop_tokens = vec![3, 99];
    assert_eq!(refused(Request { stop_tokens, ..Request::new([1], 4) }), outside("the list of stop tokens", 99));
    assert_eq!(refused(Request::new(vec![1; 64], 1)), Refused::PromptTooLong { tokens: 64, most: 63 });
}

#[test]
fn counts_are_within_their_ranges() {
    let count = |name, value, most| Refused::Count { name, value, most };
    let choices = |choices: usize| Request { choices, ..Request::new([1], 4) };
    assert_eq!(refused(choices(0)), count("the number of choices", 0, 4));
    assert_eq!(refused(choices(5)), count("the number of choices", 5, 4));
    assert_eq!(refused(Request::new([1], 0)), count("the number of tokens to generate", 0, usize::MAX));
    let top = SamplingParams { top_logprobs: 3, ..SamplingParams::default() };
    assert_eq!(refused(with(top)), count("the number of log-probabilities", 3, 2));
}

#[test]
fn sampling_parameters_are_numbers_in_their_ranges() {
    let base = SamplingParams::default;
    let cases = [
        ("temperature", SamplingParams { temperature: f32::NAN, ..base() }),
        ("temperature", SamplingParams { temperature: -0.5, ..base() }),
        ("temperature", SamplingParams { temperature: f32::INFINITY, ..base() }),
        ("top_p", SamplingParams { top_p: 1.5, ..base() }),
        ("top_p", SamplingParams { top_p: -0.1, ..base() }),
        ("top_p", SamplingParams { top_p: f32::NAN, ..base() }),
        ("min_p", SamplingParams { min_p: 2.0, ..base() }),
        ("repetition_penalty", SamplingParams { repetition_penalty: 0.0, ..base() }),
        ("presence_penalty", SamplingParams { presence_penalty: f32::NAN, ..base() }),
        ("frequency_penalty", SamplingParams { frequency_penalty: f32::NEG_INFINITY, ..base() }),
    ];
    for (want, sampling) in cases {
        let refused = refused(with(sampling));
        assert!(matches!(&refused, Refused::OutOfRange { name, .. } if *name == want), "{refused}");
    }
}

#[test]
fn masks_cover_the_vocabulary_and_allow_something() {
    let mask = |words: Vec<u32>| with(SamplingParams { allowed: Some(words.into()), ..SamplingParams::default() });
    for words in [vec![1], vec![0, 0], vec![0, 0, 1], vec![0, 1 << 31]] {
        let count = words.len();
        assert_eq!(refused(mask(words)), Refused::AllowedMask { words: count, want: 2 });
    }
    let mut world = World::new(FakeModel::new(limits(64, 16, 4), 10, 4), EngineConfig::default());
    world.submit(mask(vec![0, 1 << (VOCAB - 33)])).expect("the last token is allowed");
    world.finish();
}

#[test]
fn a_request_that_can_never_fit_is_refused_at_once() {
    // 20 + 21 tokens, of which the last has no keys: 10 pages
    let mut world = World::new(FakeModel::new(limits(64, 16, 4), 10, 4), EngineConfig::default());
    world.submit(Request { ignore_eos: true, ..Request::new(vec![1; 20], 21) }).expect("exactly the pool");
    world.finish();
    assert_eq!(refused(Request::new(vec![1; 20], 22)), Refused::NeverFits { need: 11, free: 10, total: 10 });
    let message = refused(Request::new(vec![1; 20], usize::MAX)).to_string();
    assert!(message.contains("16 pages") && message.contains("10"), "{message}");
}

#[test]
fn endless_texts_need_a_model_and_room() {
    let endless = |sinks, window| Request { endless: Some(Endless { sinks, window }), ..Request::new([1; 9], 4) };
    let why = |refused: Refused| match refused {
        Refused::Endless { why } => why,
        other => panic!("{other}"),
    };
    assert!(why(refused(endless(4, 0))).contains("at least 1 key"));
    assert!(why(refused(endless(40, 30))).contains("at most 64"));
    assert!(why(refused(endless(2, 6))).contains("9 tokens"));
    assert!(matches!(refused(endless(4, 40)), Refused::NeverFits { total: 5, .. }));
    let fixed = ModelLimits { endless: false, ..limits(64, 16, 4) };
    let mut world = World::new(FakeModel::new(fixed, 10, 4), EngineConfig::default());
    assert!(why(world.submit(endless(4, 8)).expect_err("no such model")).contains("on the fly"));
}

#[test]
fn a_full_queue_is_busy() {
    let config = EngineConfig { max_waiting: 2, ..EngineConfig::default() };
    let mut world = World::new(FakeModel::new(limits(64, 16, 1), 10, 4), config);
    for _ in 0..2 {
        world.submit(Request::new([1, 2], 3)).expect("a place in the queue");
    }
    assert_eq!(world.submit(Request::new([1, 2], 3)), Err(Refused::Busy { waiting: 2 }));
    world.finish();
    world.submit(Request::new([1, 2], 3)).expect("a place in the queue");
    world.finish();
}
