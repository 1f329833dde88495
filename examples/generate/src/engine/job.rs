//! A request that was admitted to the queue.

use attn_cache::Namespace;

use super::request::{FinishReason, Request, RequestId};
use crate::{model::ModelLimits, sampling::SamplingParams};

/// What all choices of a request have in common.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: RequestId,
    pub(super) request: Request,
    pub(super) namespace: Namespace,
    /// How each choice draws its tokens.
    pub(super) params: Box<[SamplingParams]>,
}

impl Job {
    pub(super) fn new(id: RequestId, request: Request) -> Self {
        let namespace = match &request.namespace {
            Some(name) => Namespace::default().with_salt(name),
            None => Namespace::default(),
        };
        let params = |choice: usize| SamplingParams {
            seed: request.sampling.seed.wrapping_add(choice as u64),
            ..request.sampling.clone()
        };
        let params = (0..request.choices).map(params).collect();
        Job { id, request, namespace, params }
    }

    /// Why a text of `len` tokens ends with `token`, if it does.
    pub(super) fn end(&self, token: u32, len: usize, model: &ModelLimits) -> Option<FinishReason> {
        let Request { prompt, ignore_eos, stop_tokens, max_tokens, endless, .. } = &self.request;
        if token == model.eos && !ignore_eos || stop_tokens.contains(&token) {
            return Some(FinishReason::Stop);
        }
        let is_full = len - prompt.len() >= *max_tokens || endless.is_none() && len >= model.context;
        is_full.then_some(FinishReason::Length)
    }
}
