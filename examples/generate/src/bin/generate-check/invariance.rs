//! Batch invariance: the logits of a token have the same bits however its text is computed.

use attn_cache::{Namespace, Prefix, Sequence};
use generate::{Error, model::draw::NoDraw};

use super::{
    Options,
    harness::{Harness, Mode, STEP_SEQUENCES},
    truth::Truth,
};

/// Tokens of the text that is compared.
const TOKENS: usize = 200;

/// Compares bits; returns how many ways of computing gave others.
pub(crate) fn check(options: &Options, truth: &Truth) -> Result<usize, Error> {
    let mut harness = Harness::new(options, Mode::of(options, true), |_, _| Ok(NoDraw))?;
    let text = &truth.texts[0].ids[..TOKENS.min(truth.texts[0].ids.len())];
    let alone = harness.text(text, &[STEP_SEQUENCES])?;
    println!("invariance on {}, {} tokens", harness.engine, text.len());
    let mut wrong = 0;
    let mut compare = |what: &str, logits: &[Vec<f32>], first: usize| {
        let same = logits.iter().zip(&alone[first..]).filter(|(a, b)| bits(a).eq(bits(b))).count();
        println!("  {what}: {same} of {} tokens have the same bits", logits.len());
        wrong += usize::from(same != logits.len());
    };
    compare("in chunks of 1, 17 and 40", &harness.text(text, &[1, 17, 40])?, 0);
    compare("token by token", &harness.text(text, &[1])?, 0);
    compare("beside other texts", &beside(&mut harness, text, truth)?, 0);
    let (first, logits) = warm(&mut harness, text)?;
    compare("after a cached prefix", &logits, first);
    Ok(wrong)
}

/// The logits of a text that is computed in chunks, beside the prompts of the truth, first and last in the step by
/// turns.
fn beside(harness: &mut Harness<NoDraw>, text: &[u32], truth: &Truth) -> Result<Vec<Vec<f32>>, Error> {
    let (mut logits, mut sequence) = (Vec::new(), Sequence::new(&harness.pages));
    for (number, chunk) in text.chunks(STEP_SEQUENCES / 2).enumerate() {
        let prompt = &truth.prompts[number % truth.prompts.len()].ids;
        let prompt = &prompt[..prompt.len().min(STEP_SEQUENCES / 2)];
        let other = Sequence::new(&harness.pages);
        if number % 2 == 0 {
            let mut sequences = [sequence, other];
            logits.extend_from_slice(&harness.logits(&mut sequences, &[chunk, prompt])?[..chunk.len()]);
            [sequence, _] = sequences;
        } else {
            let mut sequences = [other, sequence];
            logits.extend_from_slice(&harness.logits(&mut sequences, &[prompt, chunk])?[prompt.len()..]);
            [_, sequence] = sequences;
        }
    }
    Ok(logits)
}

/// The logits of what a prefix cache leaves to compute of a text, and the index of the first.
fn warm(harness: &mut Harness<NoDraw>, text: &[u32]) -> Result<(usize, Vec<Vec<f32>>), Error> {
    let (prefix, namespace) = (Prefix::new(&harness.pages), Namespace::default());
    let mut sequence = [Sequence::new(&harness.pages)];
    for chunk in text.chunks(STEP_SEQUENCES) {
        harness.logits(&mut sequence, &[chunk])?;
    }
    sequence[0].cache(&prefix, &namespace, text)?;
    let hit = prefix.lookup(&namespace, text);
    let first = hit.tokens;
    let mut warm = [Sequence::with_prefix(&harness.pages, hit)];
    Ok((first, harness.logits(&mut warm, &[&text[first..]])?))
}

fn bits(logits: &[f32]) -> impl Iterator<Item = u32> {
    logits.iter().map(|x| x.to_bits())
}
