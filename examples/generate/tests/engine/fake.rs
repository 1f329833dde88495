//! A model whose next token is a function of its whole context, as it is stored in its cache.
//!
//! Its cache holds one token in each slot instead of keys and values. It reads the context of a row back through the
//! page tables of the step, so a wrong page, slot, copy, position, window or order gives another text.

use std::sync::{Arc, Mutex, PoisonError};

use attn_cache::{PageId, Pages, Token};
use generate::{
    Error,
    engine::{FinishReason, Request},
    model::{Endless, Model, ModelLimits, SampleRow, StepInput},
    sampling::{Sampled, SamplingParams},
};

pub(crate) const VOCAB: usize = 61;
pub(crate) const EOS: Token = 0;
/// A context that holds it has logits that are not finite. It breaks all tokens of its chunk, as a value that is not a
/// number breaks all rows of its tile.
pub(crate) const NOT_FINITE: Token = 60;
/// A step in which it is a new token fails.
pub(crate) const FAILS: Token = 59;
/// A step in which it is a new token panics.
pub(crate) const PANICS: Token = 58;

/// What a test may know of the steps.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) steps: usize,
    pub(crate) most_requests: usize,
    pub(crate) cascades: usize,
    pub(crate) copies: usize,
    pub(crate) guesses: usize,
    /// New tokens of each request of the last step.
    pub(crate) last: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct FakeModel {
    limits: ModelLimits,
    pages: Pages,
    slots: Vec<Token>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// In batch-invariant mode, the tokens of a chunk: none passes a border.
    chunk_tokens: Option<usize>,
}

pub(crate) fn limits(context: usize, step_tokens: usize, step_sequences: usize) -> ModelLimits {
    ModelLimits {
        vocab: VOCAB,
        context,
        step_tokens,
        step_sequences,
        step_rows: step_sequences + step_tokens / 2,
        top_logprobs: 2,
        endless: true,
        eos: EOS,
    }
}

impl FakeModel {
    pub(crate) fn new(limits: ModelLimits, pages: usize, page_size: usize) -> Self {
        FakeModel {
            limits,
            pages: Pages::new(pages, page_size).expect("a pool"),
            slots: vec![Token::MAX; pages * page_size],
            seen: Arc::default(),
            chunk_tokens: None,
        }
    }

    pub(crate) fn with_borders(self, chunk_tokens: usize) -> Self {
        FakeModel { chunk_tokens: Some(chunk_tokens), ..self }
    }

    fn copy_pages(&mut self, copies: &[[PageId; 2]]) {
        let size = self.pages.page_size();
        for &[from, to] in copies {
            let (from, to) = (from as usize * size, to as usize * size);
            self.slots.copy_within(from..from + size, to);
        }
    }

    /// The tokens of a request that the query at `position` sees.
    fn context(&self, row: &[PageId], position: usize, endless: Option<Endless>) -> Vec<Token> {
        let size = self.pages.page_size();
        let slot = |at: usize| self.slots[row[at / size] as usize * size + at % size];
        let is_seen = |&at: &usize| endless.is_none_or(|keys| at < keys.sinks || position - at < keys.window);
        (0..=position).filter(is_seen).map(slot).collect()
    }

    fn check(&self, input: &StepInput<'_>) {
        let arrays = input.step.arrays();
        let requests = arrays.kv_lens.len();
        assert!(input.tokens.len() <= self.limits.step_tokens && requests <= self.limits.step_sequences);
        assert!(input.rows.len() <= self.limits.step_rows, "{} rows", input.rows.len());
        assert_eq!((input.tokens.len(), input.endless.len()), (arrays.slots.len(), requests));
        assert!(input.rows.is_sorted_by_key(|row| row.row));
        arrays.batch().validate().expect("a batch");
        let mut slots = arrays.slots.to_vec();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() == arrays.slots.len() && slots[0] >= 0, "a slot is written twice");
        for &[from, to] in input.step.copies() {
            assert!(input.step.copies().iter().all(|&[other, into]| other != to && (into != to || other == from)));
            assert_ne!(from, to);
        }
        if let Some(chunk) = self.chunk_tokens {
            for request in 0..requests {
                let range = arrays.qo_indptr[request] as usize..arrays.qo_indptr[request + 1] as usize;
                let has_guesses = input.rows.iter().any(|row| range.contains(&row.row) && row.row + 1 < range.end);
                let (first, last) = (arrays.positions[range.start] as usize, arrays.positions[range.end - 1] as usize);
                assert!(first / chunk == last / chunk || has_guesses, "a chunk of {first} to {last}");
            }
        }
        self.check_levels(input);
    }

    /// The levels of a cascade have the pages of each request, in order.
    fn check_levels(&self, input: &StepInput<'_>) {
        let (arrays, levels) = (input.step.arrays(), input.step.levels());
        if levels.len() < 2 {
            return;
        }
        let layout = attn::Batch::cascade(arrays.qo_indptr, &levels).validate().expect("a cascade");
        for request in 0..arrays.kv_lens.len() {
            assert_eq!(layout.kv_len(request), arrays.kv_lens[request] as usize, "keys of request {request}");
            let mut pages: Vec<PageId> = Vec::new();
            for level in &levels {
                let attn::CascadeLevelKv::Paged(table) = &level.kv else { panic!("pages") };
                let query = arrays.qo_indptr[request];
                let group = level.qo_indptr.partition_point(|&end| end <= query) - 1;
                pages.extend(&table.indices[table.indptr[group] as usize..table.indptr[group + 1] as usize]);
            }
            let row = arrays.page_indptr[request] as usize..arrays.page_indptr[request + 1] as usize;
            assert_eq!(pages, arrays.page_indices[row], "pages of request {request}");
        }
    }
}

impl Model for FakeModel {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        self.check(input);
        let arrays = input.step.arrays();
        let new = |request: usize| (arrays.qo_indptr[request + 1] - arrays.qo_indptr[request]) as usize;
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.steps += 1;
            seen.most_requests = seen.most_requests.max(arrays.kv_lens.len());
            seen.cascades += usize::from(input.step.levels().len() > 1);
            seen.copies += input.step.copies().len();
            seen.last = (0..arrays.kv_lens.len()).map(new).collect();
            seen.guesses += input.rows.windows(2).filter(|rows| rows[1].row == rows[0].row + 1).count();
        }
        assert!(!input.tokens.contains(&PANICS), "a model that panics");
        if input.tokens.contains(&FAILS) {
            // what it has written before is not reliable
            arrays.slots.iter().for_each(|&slot| self.slots[slot as usize] = NOT_FINITE);
            return Err(Error::Model("a test asked for it".into()));
        }
        self.copy_pages(input.step.copies());
        for range in arrays.qo_indptr.windows(2).map(|ends| ends[0] as usize..ends[1] as usize) {
            let is_broken = input.tokens[range.clone()].contains(&NOT_FINITE);
            for (&slot, &token) in arrays.slots[range.clone()].iter().zip(&input.tokens[range]) {
                self.slots[slot as usize] = if is_broken { NOT_FINITE } else { token };
            }
        }
        let draw = |row: &SampleRow<'_>| {
            let request = arrays.requests[row.row] as usize;
            let pages = arrays.page_indptr[request] as usize..arrays.page_indptr[request + 1] as usize;
            let position = arrays.positions[row.row] as usize;
            let endless = input.endless[request];
            let context = self.context(&arrays.page_indices[pages], position, endless);
            let text = [row.prompt, row.generated].concat();
            assert_eq!(row.position, text.len());
            // what is not finite spreads to earlier rows of its chunk, which a prompt that is scored has
            let new = arrays.qo_indptr[request] as usize..arrays.qo_indptr[request + 1] as usize;
            let is_broken = text.contains(&NOT_FINITE) || input.tokens[new].contains(&NOT_FINITE);
            if context.contains(&NOT_FINITE) && is_broken {
                return Sampled { token: Token::MAX, logprob: f32::NEG_INFINITY, top: Vec::new() };
            }
            match endless {
                None => assert_eq!((context.len(), &context), (position + 1, &text)),
                Some(keys) => assert_eq!(context, visible(&text, keys)),
            }
            let token = next(&context, row.position, row.params);
            Sampled { token, logprob: -(token as f32), top: Vec::new() }
        };
        Ok(input.rows.iter().map(draw).collect())
    }
}

/// The tokens that the last one of an endless text sees.
fn visible(text: &[Token], endless: Endless) -> Vec<Token> {
    let first = text.len().saturating_sub(endless.window).max(endless.sinks.min(text.len()));
    [&text[..endless.sinks.min(text.len())], &text[first..]].concat()
}

/// The token that follows a context. Most of the time it is one that occurred, so that prompt lookup has something to
/// find.
fn next(context: &[Token], position: usize, params: &SamplingParams) -> Token {
    let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let mut hash = context.iter().fold(7, |hash, &token| mix(hash, token.into()));
    if params.temperature > 0.0 {
        hash = mix(mix(hash, params.seed), position as u64);
    }
    match hash % 8 {
        0 => ((hash >> 32) % (PANICS as u64)) as Token,
        _ => context[context.len().saturating_sub(5)],
    }
}

/// The text of one choice of a request, as it is alone, without pages.
pub(crate) fn alone(request: &Request, choice: usize, context: usize) -> (Vec<Token>, FinishReason) {
    let seed = request.sampling.seed.wrapping_add(choice as u64);
    let params = SamplingParams { seed, ..request.sampling.clone() };
    let mut text = request.prompt.to_vec();
    loop {
        let seen = request.endless.map_or_else(|| text.clone(), |keys| visible(&text, keys));
        let token = next(&seen, text.len(), &params);
        text.push(token);
        let generated = text.len() - request.prompt.len();
        let stops = token == EOS && !request.ignore_eos || request.stop_tokens.contains(&token);
        let is_full = generated == request.max_tokens || request.endless.is_none() && text.len() >= context;
        if stops || is_full {
            let reason = if stops { FinishReason::Stop } else { FinishReason::Length };
            return (text.split_off(request.prompt.len()), reason);
        }
    }
}
