//! The engine over a model on a GPU for a long time: random requests and cancellations, faults, a pool too small. Two
//! engines run side by side. One is batch-invariant, and texts are those of their requests alone, token by token. The
//! other is as fast as it can be, and a text may leave that of its request alone only where two tokens are about
//! equally likely. Skipped without a GPU.
//!
//! `GENERATE_SOAK_SECONDS` says how long, 20 by default.
#![allow(clippy::print_stderr)]

use std::{
    thread,
    time::{Duration, Instant},
};

use attn_cache::Pages;
use attn_needs::{Need, has};
use cudarc::driver::{CudaContext, result::mem_get_info};
use generate::{
    Error,
    engine::{Engine, EngineConfig, EngineStats, FinishReason, Refused, Request, RequestEvent},
    model::{
        Endless, Model, ModelLimits, StepInput,
        config::LlamaConfig,
        llama::{Device, Llama, LoadOptions},
        random_weights::MadeUp,
        weights::Checkpoint,
    },
    sampling::{Sampled, SamplingParams},
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use crate::world::Told;

/// A token whose embedding is not a number.
const NOT_A_NUMBER: u32 = 250;
const EOS: u32 = 2;
const CONTEXT: usize = 1024;
/// A step fails once in so many.
const FAILS: u64 = 499;
/// A text may go another way where the token it took is less likely than the best one by this much, in nats.
const TIE: f32 = 0.35;

/// Made-up weights of SmolLM2's shape, one of whose tokens is broken.
struct Broken(MadeUp);

impl Checkpoint for Broken {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let mut values = self.0.tensor(name, shape)?;
        if name == "token_embd.weight" {
            let width = shape[1];
            values[NOT_A_NUMBER as usize * width..][..width].fill(f32::NAN);
        }
        Ok(values)
    }

    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }
}

/// A model whose steps fail now and then.
struct Flaky {
    model: Llama,
    steps: u64,
}

impl Model for Flaky {
    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }

    fn pages(&self) -> &Pages {
        self.model.pages()
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        self.steps += 1;
        if self.steps.is_multiple_of(FAILS) {
            Err(Error::Model("a test asked for it".into()))
        } else {
            self.model.run(input)
        }
    }
}

fn model(device: Device, invariant: bool, cache_tokens: usize) -> Llama {
    let shape = if device == Device::Cpu {
        LlamaConfig { vocab: 4096, ..LlamaConfig::tiny() }
    } else {
        LlamaConfig::smollm2_135m()
    };
    let config = LlamaConfig { context: CONTEXT, ..shape };
    // the head is another matrix than the embedding, so that one broken token breaks no other
    let weights = Broken(MadeUp { config, tied: false, seed: 7 });
    let options = LoadOptions {
        device,
        batch_invariant: Some(invariant),
        step_tokens: 256,
        step_sequences: 24,
        step_rows: 96,
        cache_tokens,
        levels: if invariant { 0 } else { 4 },
        endless: true,
        ..LoadOptions::default()
    };
    Llama::new(&config, &weights, EOS, &options).expect("a model")
}

fn config(invariant: bool) -> EngineConfig {
    EngineConfig { chunk_tokens: 128, batch_invariant: invariant, ..EngineConfig::default() }
}

/// A random request. Prompts begin with one of a few texts.
fn request(rng: &mut SmallRng) -> Request {
    let base = rng.random_range(0..4u32);
    let shared = (0..rng.random_range(0..400u32)).map(|i| 3 + (i * (base + 3) * 37 + i / 7) % 200);
    let mut prompt: Vec<u32> = shared.collect();
    let own = rng.random_range(1..60);
    // a few tokens again and again, so that guesses find something
    prompt.extend((0..own).map(|i| 3 + (i % 7) * 11 + rng.random_range(0..2)));
    let endless = rng.random_bool(0.1).then(|| Endless { sinks: 4, window: rng.random_range(16..120) });
    if endless.is_some() {
        prompt.truncate(16);
    }
    if rng.random_bool(0.02) {
        let at = rng.random_range(0..prompt.len());
        prompt[at] = NOT_A_NUMBER;
    }
    let greedy = rng.random_bool(0.6);
    let rare = rng.random_bool(0.15);
    let sampling = SamplingParams {
        temperature: if greedy { 0.0 } else { rng.random_range(0.3..1.2) },
        top_k: if rng.random_bool(0.3) { 40 } else { 0 },
        top_p: if rng.random_bool(0.3) { 0.9 } else { 1.0 },
        seed: rng.random(),
        repetition_penalty: if rare { 1.2 } else { 1.0 },
        frequency_penalty: if rare { 0.3 } else { 0.0 },
        top_logprobs: if rng.random_bool(0.1) { 5 } else { 0 },
        ..SamplingParams::default()
    };
    Request {
        sampling,
        choices: if rng.random_bool(0.15) { rng.random_range(2..5) } else { 1 },
        ignore_eos: rng.random_bool(0.5),
        namespace: rng.random_bool(0.1).then(|| "tenant".to_owned()),
        speculate: if rng.random_bool(0.4) { 4 } else { 0 },
        endless,
        ..Request::new(prompt, rng.random_range(1..200))
    }
}

/// The tokens of one choice, computed with nothing beside it, and what is likeliest at each.
fn alone(engine: &mut Engine<Llama>, request: &Request, choice: usize) -> Vec<Sampled> {
    let seed = request.sampling.seed.wrapping_add(choice as u64);
    let sampling = SamplingParams { seed, top_logprobs: 5, ..request.sampling.clone() };
    let request = Request { sampling, choices: 1, speculate: 0, namespace: None, ..request.clone() };
    engine.clear_prefixes();
    let id = engine.submit(request).expect("it ran before");
    let (mut events, mut drawn) = (Vec::new(), Vec::new());
    while !engine.is_idle() {
        engine.step(&mut events);
        for RequestEvent { request, event } in events.drain(..) {
            assert_eq!(request, id);
            if let generate::engine::Event::Token { sampled, .. } = event {
                drawn.push(sampled);
            }
        }
    }
    drawn
}

#[derive(Debug, Default)]
struct Counts {
    submitted: usize,
    refused: usize,
    cancelled: usize,
    not_finite: usize,
    steps_failed: usize,
    compared: usize,
    compared_tokens: usize,
    ties: usize,
}

/// Whether texts were preempted, prefixes were found, and drafts were accepted.
fn is_wild(stats: &EngineStats) -> bool {
    stats.preemptions > 0 && stats.hit_tokens > 0 && stats.accepted_tokens > 0
}

/// Runs one engine for `time` from `start` on, then lets its texts end.
fn soak(device: Device, invariant: bool, seed: u64, start: Instant, time: Duration) {
    let name = if invariant { "invariant" } else { "fast" };
    // a pool that a few of the 24 texts fill
    let model = Flaky { model: model(device, invariant, 3072), steps: 0 };
    let pages = model.pages().clone();
    let mut engine = Engine::new(model, config(invariant)).expect("an engine");
    let mut reference = Engine::new(self::model(device, true, 2048), config(true)).expect("an engine");
    let (mut rng, mut counts) = (SmallRng::seed_from_u64(seed), Counts::default());
    let (mut told, mut events): (Vec<Told>, _) = (Vec::new(), Vec::new());
    loop {
        // a slow machine has more time to see everything
        let seen = counts.compared > 0 && is_wild(&engine.stats());
        let ending = start.elapsed() >= if seen { time } else { 6 * time };
        if ending && engine.is_idle() {
            break;
        }
        // enough waits that the engine is never idle, and steps have many texts
        while !ending && (told.len() < 20 || told.len() < 40 && rng.random_bool(0.2)) {
            let request = request(&mut rng);
            let id = engine.submit(request.clone()).expect("it fits alone");
            counts.submitted += 1;
            told.push(Told::new(id, request));
        }
        if rng.random_bool(0.01) {
            let prompt = vec![30; CONTEXT + 1];
            let refused = engine.submit(Request::new(prompt, 5)).expect_err("longer than the context");
            assert!(matches!(refused, Refused::PromptTooLong { .. }), "{refused}");
            counts.refused += 1;
        }
        if rng.random_bool(0.01) && !told.is_empty() {
            let at = rng.random_range(0..told.len());
            engine.cancel(told[at].id);
        }
        engine.step(&mut events);
        for RequestEvent { request, event } in events.drain(..) {
            told.iter_mut().find(|told| told.id == request).expect("a request of ours").hear(event);
        }
        if rng.random_bool(0.1) {
            engine.check().expect("sound");
        }
        for ended in told.extract_if(.., |told| told.has_ended()) {
            finish(&ended, &mut reference, invariant, &mut counts, &mut rng);
        }
    }
    engine.clear_prefixes();
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.pages.free), (0, 0, pages.count()), "pages leak");
    pages.check().expect("sound");
    eprintln!("{name}, end: {stats:?} {counts:?}");
    assert!(is_wild(&stats), "too tame: {stats:?}");
    assert!(counts.compared > 0, "nothing was compared");
    drop((engine, reference));
    assert_eq!(pages.stats().free, pages.count());
}

/// Counts a request that ended, and now and then compares its texts with what they are alone.
fn finish(told: &Told, reference: &mut Engine<Llama>, invariant: bool, counts: &mut Counts, rng: &mut SmallRng) {
    let is_broken = told.request.prompt.contains(&NOT_A_NUMBER);
    if let Some(why) = &told.failed {
        match (why.contains("not finite"), why.contains("a test asked for it")) {
            // a text may draw the token too
            (true, _) => {
                let drawn = told.texts.iter().any(|text| text.last() == Some(&NOT_A_NUMBER));
                assert!(is_broken || drawn, "{why}: {:?}", told.request);
            }
            (_, true) => {}
            _ => panic!("{why}: {:?}", told.request),
        }
        counts.not_finite += usize::from(why.contains("not finite"));
        counts.steps_failed += usize::from(why.contains("a test asked for it"));
        return;
    }
    let was_cancelled = told.ends.contains(&Some(FinishReason::Cancelled));
    counts.cancelled += usize::from(was_cancelled);
    assert!(!is_broken || was_cancelled, "a text of what is not a number: {:?}", told.request);
    // rounding may change what is drawn at a temperature
    let is_exact = invariant || told.request.sampling.temperature == 0.0 && told.request.endless.is_none();
    if is_broken || !is_exact || !rng.random_bool(0.04) {
        return;
    }
    for (choice, text) in told.texts.iter().enumerate() {
        let want = alone(reference, &told.request, choice);
        let same = text.iter().zip(&want).take_while(|(got, want)| **got == want.token).count();
        counts.compared += 1;
        counts.compared_tokens += same;
        if same == text.len().min(want.len()) {
            assert!(was_cancelled || text.len() == want.len(), "{} tokens of {}", text.len(), want.len());
            continue;
        }
        let (got, want) = (text[same], &want[same]);
        let lag = want.top.iter().find(|(token, _)| *token == got).map(|(_, logprob)| want.top[0].1 - logprob);
        counts.ties += 1;
        assert!(
            !invariant && lag.is_some_and(|lag| lag < TIE),
            "token {same} of choice {choice} is {got}, alone it is {want:?}: {:?}",
            told.request
        );
    }
}

#[test]
fn two_engines_on_a_gpu() {
    if !has(Need::Gpu, attn::Engine::cuda(0)) {
        return;
    }
    let seconds = std::env::var("GENERATE_SOAK_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    let (start, time) = (Instant::now(), Duration::from_secs(seconds));
    let context = CudaContext::new(0).expect("a GPU"); // until the last look at its memory
    context.bind_to_thread().expect("its context");
    let memory = || mem_get_info().map(|(free, total)| (total - free) >> 20).expect("a context");
    let before = memory();
    let engines = [true, false]
        .map(|invariant| thread::spawn(move || soak(Device::Cuda, invariant, 11 + u64::from(invariant), start, time)));
    // models are loaded then
    thread::sleep(Duration::from_secs(20));
    let loaded = memory();
    engines.into_iter().for_each(|engine| engine.join().expect("no check failed"));
    eprintln!("MiB of the device: {before} before, {loaded} after 20 s, {} after both", memory());
}

#[test]
fn an_engine_on_the_cpu() {
    soak(Device::Cpu, true, 5, Instant::now(), Duration::from_secs(10));
}
