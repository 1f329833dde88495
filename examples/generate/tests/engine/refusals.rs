//! Requests that are not run.

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
