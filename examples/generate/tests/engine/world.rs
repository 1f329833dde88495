//! An engine over the fake model, and what its requests said.

use attn_cache::{Pages, Token};
use generate::{
    engine::{Engine, EngineConfig, Event, FinishReason, Refused, Request, RequestEvent, RequestId},
    model::Model as _,
};

use crate::fake::{FakeModel, alone};

/// A request, and its events so far.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    pub(crate) started: bool,
    pub(crate) cached_tokens: usize,
    /// Tokens of the prompt whose log-probabilities were told.
    pub(crate) scored: Vec<Token>,
    pub(crate) texts: Vec<Vec<Token>>,
    pub(crate) ends: Vec<Option<FinishReason>>,
    pub(crate) failed: Option<String>,
}

impl Told {
    pub(crate) fn new(id: RequestId, request: Request) -> Self {
        let choices = request.choices;
        Told {
            id,
            request,
            started: false,
            cached_tokens: 0,
            scored: Vec::new(),
            texts: vec![Vec::new(); choices],
            ends: vec![None; choices],
            failed: None,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.failed.is_some() || self.ends.iter().all(Option::is_some)
    }

    /// Takes an event in, and checks that it may come now.
    pub(crate) fn hear(&mut self, event: Event) {
        assert!(!self.has_ended(), "{event:?} comes after the end");
        match event {
            Event::Started { cached_tokens } => {
                assert!(!std::mem::replace(&mut self.started, true), "a request starts once");
                self.cached_tokens = cached_tokens;
            }
            Event::Prompt { scored } => {
                assert!(self.started && self.texts.iter().all(Vec::is_empty));
                self.scored.extend(scored.into_iter().map(|sampled| sampled.token));
            }
            Event::Token { choice, sampled } => {
                assert!(self.started && self.ends[choice].is_none());
                self.texts[choice].push(sampled.token);
            }
            Event::Finished { choice, reason } => {
                assert!(self.ends[choice].replace(reason).is_none(), "a choice ends once");
            }
            Event::Failed { message } => self.failed = Some(message),
        }
    }

    /// Checks that every text is that of the request alone, as far as it goes.
    pub(crate) fn check(&self, context: usize) {
        for (choice, text) in self.texts.iter().enumerate() {
            let (want, reason) = alone(&self.request, choice, context);
            if !text.is_empty() {
                let scored = if self.request.score_prompt { &self.request.prompt[1..] } else { &[] };
                assert_eq!(self.scored, scored, "{:?}", self.request);
            }
            let is_whole = matches!(self.ends[choice], Some(FinishReason::Stop | FinishReason::Length));
            if is_whole {
                assert_eq!(text, &want, "choice {choice} of {:?}", self.request);
                assert_eq!(self.ends[choice], Some(reason));
            } else {
                assert_eq!(text, &want[..text.len()], "choice {choice} of {:?}", self.request);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: Engine<FakeModel>,
    pub(crate) pages: Pages,
    pub(crate) told: Vec<Told>,
    context: usize,
    events: Vec<RequestEvent>,
}

impl World {
    pub(crate) fn new(model: FakeModel, config: EngineConfig) -> Self {
        let (pages, context) = (model.pages().clone(), model.limits().context);
        let engine = Engine::new(model, config).expect("an engine");
        World { engine, pages, told: Vec::new(), context, events: Vec::new() }
    }

    pub(crate) fn submit(&mut self, request: Request) -> Result<usize, Refused> {
        let id = self.engine.submit(request.clone())?;
        self.told.push(Told::new(id, request));
        Ok(self.told.len() - 1)
    }

    pub(crate) fn step(&mut self) {
        self.engine.step(&mut self.events);
        for RequestEvent { request, event } in self.events.drain(..) {
            let told = self.told.iter_mut().find(|told| told.id == request).expect("a request of ours");
            told.hear(event);
        }
        self.engine.check().expect("sound");
    }

    /// Runs until everything has ended, and checks every text.
    pub(crate) fn finish(&mut self) {
        let most = 200 + 40 * self.told.iter().map(|told| told.request.max_tokens * told.texts.len()).sum::<usize>();
        let mut steps = 0;
        while !self.engine.is_idle() {
            self.step();
            steps += 1;
            assert!(steps < most, "no end after {steps} steps: {:?}", self.engine.stats());
        }
        assert!(self.told.iter().all(Told::has_ended));
        self.told.iter().for_each(|told| told.check(self.context));
        let stats = self.engine.stats();
        assert_eq!((stats.running, stats.waiting), (0, 0));
        assert_eq!(stats.pages.free + stats.pages.evictable, stats.pages.total, "pages leak");
        assert_eq!(stats.ended as usize, self.told.len());
    }

    /// Drops the engine, and checks that it frees everything.
    pub(crate) fn drop_engine(self) {
        let World { engine, pages, .. } = self;
        drop(engine);
        assert_eq!(pages.stats().free, pages.count());
        pages.check().expect("sound");
    }
}
