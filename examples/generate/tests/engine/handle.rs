//! An engine on a thread of its own.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use attn_cache::Pages;
use generate::{
    Error,
    engine::{Engine, EngineConfig, EngineHandle, FinishReason, Refused, Request, RequestStream},
    model::{Model, ModelLimits, StepInput},
    sampling::Sampled,
};

use crate::{
    fake::{FakeModel, PANICS, limits},
    world::Told,
};

const CONTEXT: usize = 128;
const MINUTE: Duration = Duration::from_secs(60);

/// A model that runs a step for each permit.
#[derive(Debug)]
struct Gated {
    model: FakeModel,
    permits: mpsc::Receiver<()>,
}

impl Model for Gated {
    fn limits(&self) -> ModelLimits {
        self.model.limits()
    }
    fn pages(&self) -> &Pages {
        self.model.pages()
    }
    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        // without a sender every step may run
        let _ = self.permits.recv();
        self.model.run(input)
    }
}

fn model() -> FakeModel {
    FakeModel::new(limits(CONTEXT, 32, 8), 64, 4)
}

fn spawn(model: impl Model + 'static, config: EngineConfig) -> EngineHandle {
    EngineHandle::spawn(Engine::new(model, config).expect("an engine")).expect("a thread")
}

fn gated(config: EngineConfig) -> (EngineHandle, mpsc::Sender<()>) {
    let (permit, permits) = mpsc::channel();
    (spawn(Gated { model: model(), permits }, config), permit)
}

fn request(first: u32, max_tokens: usize) -> Request {
    Request { ignore_eos: true, choices: 2, ..Request::new([first, 2, 3, 4, 5, 6], max_tokens) }
}

/// Hears a request to its end.
fn hear(mut stream: RequestStream, request: Request) -> Told {
    let mut told = Told::new(stream.id(), request);
    while let Some(event) = stream.blocking_recv() {
        told.hear(event);
    }
    assert!(told.has_ended(), "{told:?}");
    told.check(CONTEXT);
    told
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + MINUTE;
    while !is_true() {
        assert!(Instant::now() < end, "{what} takes too long");
        thread::yield_now();
    }
}

#[test]
fn many_threads_share_an_engine() {
    let handle = spawn(model(), EngineConfig::default());
    let ask = |thread: u32| {
        let handle = handle.clone();
        move || {
            for round in 0..10 {
                let request = request(1 + (thread + round) % 30, 5 + round as usize);
                let mut stream = handle.submit(request.clone()).expect("a place");
                if (thread + round).is_multiple_of(4) {
                    // a client that goes away after some events, or before any
                    (0..round).for_each(|_| drop(stream.blocking_recv()));
                    continue;
                }
                let told = hear(stream, request);
                assert_eq!(told.ends, [Some(FinishReason::Length); 2]);
            }
        }
    };
    let threads: Vec<_> = (0..8).map(|thread| thread::spawn(ask(thread))).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    wait_until("the last step", || handle.stats().ended == 80);
    let pages = handle.stats().pages;
    assert_eq!(pages.free + pages.evictable, pages.total);
    handle.shutdown(MINUTE);
}

#[test]
fn streams_are_asynchronous_without_a_runtime_of_their_own() {
    let handle = spawn(model(), EngineConfig::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut streams: Vec<_> = (1..5).map(|i| (request(i, 9), handle.submit(request(i, 9)))).collect();
        for (request, stream) in &mut streams {
            let stream = stream.as_mut().expect("a place");
            let mut told = Told::new(stream.id(), request.clone());
            while let Some(event) = stream.recv().await {
                told.hear(event);
            }
            assert!(told.has_ended());
            told.check(CONTEXT);
            assert_eq!(stream.recv().await, None, "nothing follows the end");
        }
    });
}

#[test]
fn a_panic_fails_every_request_and_hangs_none() {
    let (handle, permit) = gated(EngineConfig::default());
    let fine = handle.submit(request(1, 50)).expect("a place");
    permit.send(()).expect("the thread runs");
    wait_until("a step", || handle.stats().steps == 1);
    let bad = handle.submit(request(PANICS, 50)).expect("a place");
    let waits = handle.submit(request(3, 50)).expect("a place");
    drop(permit);
    for (stream, first) in [(fine, 1), (bad, PANICS), (waits, 3)] {
        let told = hear(stream, request(first, 50));
        assert!(told.failed.is_some_and(|why| why.contains("a model that panics")));
    }
    assert!(matches!(handle.submit(request(1, 4)), Err(Refused::Stopped { why }) if why.contains("panic")));
    assert!(handle.health().is_err());
    handle.shutdown(MINUTE);
}

#[test]
fn a_shutdown_lets_requests_end() {
    let model = model();
    let pages = model.pages().clone();
    let handle = spawn(model, EngineConfig::default());
    let streams: Vec<_> = (1..6).map(|first| (first, handle.submit(request(first, 40)).expect("a place"))).collect();
    handle.shutdown(MINUTE);
    assert_eq!(pages.stats().free, pages.count(), "the engine is gone, and its pages with it");
    for (first, stream) in streams {
        assert_eq!(hear(stream, request(first, 40)).ends, [Some(FinishReason::Length); 2]);
    }
    assert!(matches!(handle.submit(request(1, 4)), Err(Refused::Stopped { .. } | Refused::ShuttingDown)));
    handle.shutdown(MINUTE);
}

#[test]
fn the_last_handle_leaves_requests_to_end() {
    let handle = spawn(model(), EngineConfig::default());
    let stream = handle.submit(request(1, 60)).expect("a place");
    drop(handle);
    assert_eq!(hear(stream, request(1, 60)).ends, [Some(FinishReason::Length); 2]);
}
