//! The properties that every variant must have, as functions that report where one is violated.
//! [`variant_test!`](crate::variant_test) makes tests of them.
//!
//! Required tensors that were not given are filled. Given tensors must fit 8 query heads, 2 KV heads and a head dim of
//! 64.

mod cases;
mod keys;
mod macros;
mod padding;
mod reference;
mod requests;
mod splits;
mod tiles;
mod weights;

pub use keys::keys;
pub use padding::padding;
pub use reference::check_variant;
pub use requests::{batch_wide, requests};
pub use splits::splits;
pub use tiles::tiles;
pub use weights::weights;

use attn::{Error, Heads, Variant};
use attn_core::batch::{Batch, Layout, indptr};
use attn_core::lang::Dims;

use super::random::Random;
use super::{Case, Lens, TestError, fill};

/// The heads of all batches.
pub const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };

/// A random batch of short requests, and the variant bound to it.
struct Sample {
    variant: Variant,
    layout: Layout,
    random: Random,
}

/// Random batches, the same in every run.
fn samples(variant: &Variant, count: u64) -> impl Iterator<Item = Result<Sample, TestError>> {
    (0..count).map(move |seed| {
        let mut random = Random::new(seed, 77);
        let longest = [40, 200, 700][seed as usize % 3];
        let requests = 1 + random.below(3) as usize;
        let mut lens = |longest: u64| (0..requests).map(|_| random.below(longest) as u32).collect::<Vec<_>>();
        let (qo, kv) = (lens(30), lens(longest));
        let (qo_indptr, kv_indptr) = (indptr(&qo)?, indptr(&kv)?);
        let layout = Batch::ragged(&qo_indptr, &kv_indptr).validate()?;
        let dims = layout.dims(HEADS);
        let dims =
            Dims { qo_tokens: dims.qo_tokens.map(|n| n.max(1)), kv_tokens: dims.kv_tokens.map(|n| n.max(1)), ..dims };
        let (qo_lens, kv_lens) = (Lens::List(qo), Lens::List(kv));
        let case = Case { qo_heads: HEADS.qo, kv_heads: HEADS.kv, qo_lens, kv_lens, seed, ..Case::new("") };
        let variant = fill::complete(variant, &dims, &case)?.bind(&dims).map_err(Error::from)?;
        Ok(Sample { variant, layout, random })
    })
}

fn violated(what: &'static str, why: impl Into<String>) -> TestError {
    TestError::Broken { what, why: why.into() }
}

#[cfg(test)]
mod tests;
