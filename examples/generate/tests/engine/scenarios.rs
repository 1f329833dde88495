//! What the engine does in situations that we can name.

use attn_cache::Token;
use generate::{
    engine::{EngineConfig, FinishReason, Request},
    model::Endless,
    sampling::SamplingParams,
};

use crate::{
    fake::{FAILS, FakeModel, NOT_FINITE, limits},
    world::World,
};

fn prompt(seed: u32, len: usize) -> Vec<Token> {
    (0..len as u32).map(|i| 1 + (i * i + 7 * i * seed + seed) % 50).collect()
}

/// Requests that end by their length, so that each takes as many steps as it has tokens.
fn request(seed: u32, len: usize, max_tokens: usize) -> Request {
    Request { ignore_eos: true, ..Request::new(prompt(seed, len), max_tokens) }
}

fn sampled(seed: u64) -> SamplingParams {
    SamplingParams { temperature: 0.8, seed, ..SamplingParams::default() }
}

fn small_chunks() -> EngineConfig {
    EngineConfig { chunk_tokens: 8, ..EngineConfig::default() }
}

#[test]
fn tokens_of_texts_come_before_chunks_of_prompts() {
    let mut world = World::new(FakeModel::new(limits(128, 16, 4), 64, 4), small_chunks());
    world.submit(request(1, 4, 30)).expect("it fits");
    world.step();
    world.submit(request(2, 40, 4)).expect("it fits");
    let mut last = Vec::new();
    for _ in 0..5 {
        world.step();
        let seen = world.engine.model().seen.lock().expect("no panic");
        last.push(seen.last.iter().sum::<usize>());
        assert!(seen.last.contains(&1), "the first text goes on in every step");
    }
    assert_eq!(last, [9; 5], "a chunk of 8 beside one token");
    world.finish();
}

#[test]
fn a_prefix_is_computed_once() {
    let mut world = World::new(FakeModel::new(limits(128, 64, 4), 64, 4), EngineConfig::default());
    world.submit(request(3, 41, 5)).expect("it fits");
    world.finish();
    let computed = world.engine.stats().computed_tokens;
    let second = world.submit(request(3, 41, 5)).expect("it fits");
    world.finish();
    assert_eq!(world.told[second].cached_tokens, 40);
    assert_eq!(world.engine.stats().computed_tokens - computed, 1 + 4);
    assert_eq!(world.told[0].texts, world.told[second].texts);
    // its text is cached as well: a chat goes on where it ended
    let text = [&prompt(3, 41)[..], &world.told[0].texts[0]].concat();
    let third = world.submit(Request { ignore_eos: true, ..Request::new(text, 3) }).expect("it fits");
    world.finish();
    assert_eq!(world.told[third].cached_tokens, 44);
    world.drop_engine();
}

/// Values that are not numbers spread to the tokens before them in a chunk, which other prompts may begin with.
#[test]
fn keys_that_no_finite_draw_has_read_are_not_cached() {
    let mut world = World::new(FakeModel::new(limits(128, 64, 4), 64, 4), small_chunks());
    let broken = [&prompt(3, 15)[..], &[NOT_FINITE], &prompt(4, 25)].concat();
    let first = world.submit(Request { ignore_eos: true, ..Request::new(broken, 5) }).expect("it fits");
    world.step();
    world.step();
    let id = world.told[first].id;
    world.engine.cancel(id);
    let second = world.submit(request(3, 41, 5)).expect("it fits");
    world.finish();
    assert_eq!((world.told[second].cached_tokens, &world.told[second].failed), (0, &None));
    world.drop_engine();
}

#[test]
fn namespaces_are_apart() {
    let mut world = World::new(FakeModel::new(limits(128, 64, 4), 64, 4), EngineConfig::default());
    for name in [None, Some("one"), Some("two"), Some("one")] {
        let namespace = name.map(str::to_owned);
        world.submit(Request { namespace, ..request(3, 41, 5) }).expect("it fits");
        world.finish();
    }
    let hits: Vec<_> = world.told.iter().map(|told| told.cached_tokens).collect();
    assert_eq!(hits, [0, 0, 0, 40]);
}

#[test]
fn choices_share_the_pages_of_their_prompt() {
    let model = FakeModel::new(limits(128, 64, 8), 64, 4);
    let mut world = World::new(model, EngineConfig::default());
    let request = Request { choices: 6, sampling: sampled(5), ..request(4, 30, 12) };
    world.submit(request).expect("it fits");
    world.step();
    assert_eq!(world.engine.stats().pages.used, 8, "a prompt of 30 tokens");
    assert_eq!(world.told[0].texts.iter().filter(|text| text.len() == 1).count(), 6);
    world.step();
    assert_eq!(world.engine.stats().pages.used, 8 + 5, "five of the six copy the last page");
    world.finish();
    let texts = &world.told[0].texts;
    assert!(texts.iter().any(|text| *text != texts[0]), "each choice has a seed of its own");
    let seen = world.engine.model().seen.lock().expect("no panic");
    assert_eq!(seen.copies, 5);
    drop(seen);
    world.drop_engine();
}

#[test]
fn many_choices_of_a_long_prompt_run_as_a_cascade() {
    let mut model = limits(2048, 1024, 16);
    model.step_rows = 64;
    let mut world = World::new(FakeModel::new(model, 256, 16), EngineConfig::default());
    world.submit(Request { choices: 16, sampling: sampled(1), ..request(4, 1000, 8) }).expect("it fits");
    world.finish();
    let seen = world.engine.model().seen.lock().expect("no panic");
    assert!(seen.cascades >= 6, "{seen:?}");
}

#[test]
fn guesses_change_nothing_but_the_steps() {
    let steps = |speculate: usize, sampling: SamplingParams| {
        let mut world = World::new(FakeModel::new(limits(512, 64, 4), 256, 4), EngineConfig::default());
        for seed in 0..3 {
            let sampling = sampling.clone();
            world.submit(Request { speculate, sampling, ..request(seed, 30, 150) }).expect("it fits");
        }
        world.finish();
        let (stats, texts) = (world.engine.stats(), world.told.iter().map(|told| told.texts.clone()).collect());
        world.drop_engine();
        (stats, texts)
    };
    for sampling in [SamplingParams::default(), sampled(9)] {
        let (plain, texts): (_, Vec<_>) = steps(0, sampling.clone());
        let (guessed, same) = steps(4, sampling);
        assert_eq!(texts, same);
        assert_eq!((plain.guessed_tokens, plain.generated_tokens), (0, guessed.generated_tokens));
        assert!(guessed.accepted_tokens > 150 && guessed.accepted_tokens < guessed.guessed_tokens, "{guessed:?}");
        assert!(guessed.steps < plain.steps * 3 / 4, "{} steps, and {} without", guessed.steps, plain.steps);
    }
}

#[test]
fn an_endless_text_has_as_many_pages_as_its_window() {
    let endless = Some(Endless { sinks: 3, window: 20 });
    let mut world = World::new(FakeModel::new(limits(32, 16, 4), 64, 4), small_chunks());
    for seed in 0..2 {
        let request = Request { endless, sampling: sampled(seed), choices: 2, ..request(seed as u32, 18, 400) };
        world.submit(request).expect("it fits");
    }
    world.submit(request(7, 20, 10)).expect("it fits");
    for _ in 0..300 {
        world.step();
        assert!(world.engine.stats().pages.used <= 4 * 8 + 8, "{:?}", world.engine.stats());
    }
    world.finish();
    assert_eq!(world.told[1].texts[1].len(), 400, "far beyond the context of 32");
    assert_eq!(world.engine.stats().preemptions, 0);
    world.drop_engine();
}

#[test]
fn an_endless_text_never_waits_for_pages() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 4), 24, 4), small_chunks());
    // 22 pages in the end, of which 16 can be had beside the endless text
    let old = world.submit(request(1, 8, 80)).expect("it fits");
    let endless = Some(Endless { sinks: 2, window: 20 });
    let text = world.submit(Request { endless, ..request(2, 4, 200) }).expect("it fits");
    for step in 1..=200 {
        world.step();
        assert_eq!(world.told[text].texts[0].len(), step);
    }
    assert!(world.engine.stats().preemptions > 0 && !world.told[old].has_ended());
    world.finish();
    world.drop_engine();
}

#[test]
fn old_requests_are_not_passed() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 8), 32, 4), small_chunks());
    world.submit(request(1, 60, 40)).expect("it fits");
    world.submit(request(2, 100, 4)).expect("it fits");
    let small = world.submit(request(3, 4, 4)).expect("it fits");
    for _ in 0..20 {
        world.step();
    }
    assert!(!world.told[1].started && !world.told[small].started, "the second waits for pages, the third for it");
    world.finish();
}

#[test]
fn a_client_that_goes_away_frees_its_pages() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 8), 64, 4), small_chunks());
    let gone = world.submit(Request { choices: 3, ..request(1, 40, 40) }).expect("it fits");
    let stays = world.submit(request(2, 20, 10)).expect("it fits");
    let waits = world.submit(request(5, 20, 10)).expect("it fits");
    for step in 0..10 {
        if step == 7 {
            world.engine.cancel(world.told[gone].id);
            world.engine.cancel(world.told[waits].id);
        }
        world.step();
    }
    assert_eq!(world.told[gone].ends, [Some(FinishReason::Cancelled); 3]);
    world.finish();
    assert_eq!(world.told[stays].ends, [Some(FinishReason::Length)]);
    world.drop_engine();
}

#[test]
fn one_choice_can_be_stopped() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 8), 64, 4), small_chunks());
    world.submit(Request { choices: 3, sampling: sampled(3), ..request(1, 8, 20) }).expect("it fits");
    world.step();
    world.step();
    world.engine.stop(world.told[0].id, 1);
    while !world.engine.is_idle() {
        world.step();
    }
    let lens: Vec<_> = world.told[0].texts.iter().map(Vec::len).collect();
    assert_eq!(lens, [20, 2, 20]);
    assert_eq!(world.told[0].ends[1], Some(FinishReason::Stop));
}

#[test]
fn logits_that_are_not_finite_fail_their_request_alone() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 8), 64, 4), small_chunks());
    let good = world.submit(request(1, 10, 30)).expect("it fits");
    let mut tokens = prompt(2, 21);
    tokens[13] = NOT_FINITE;
    let bad = world.submit(Request { choices: 2, ..Request::new(tokens, 9) }).expect("it fits");
    world.finish();
    assert!(world.told[bad].failed.as_ref().is_some_and(|why| why.contains("not finite")));
    assert_eq!(world.told[good].texts[0].len(), 30);
    assert_eq!(world.engine.stats().failed, 1);
    world.drop_engine();
}

#[test]
fn a_failing_step_fails_its_requests_and_no_others() {
    let mut world = World::new(FakeModel::new(limits(128, 32, 2), 64, 4), small_chunks());
    let warm = world.submit(request(1, 10, 3)).expect("it fits");
    world.finish();
    let beside = world.submit(request(1, 10, 30)).expect("it fits");
    let mut tokens = prompt(2, 9);
    tokens[8] = FAILS;
    let bad = world.submit(Request { choices: 1, ..Request::new(tokens, 9) }).expect("it fits");
    let later = world.submit(Request { choices: 2, sampling: sampled(4), ..request(1, 10, 30) }).expect("it fits");
    world.finish();
    for failed in [beside, bad] {
        assert!(world.told[failed].failed.as_ref().is_some_and(|why| why.contains("asked for it")));
    }
    for whole in [warm, later] {
        assert!(world.told[whole].failed.is_none());
    }
    world.drop_engine();
}
