//! Batch invariance: the logits of a token have the same bits however its text is computed.

use attn_cache::{Namespace, Prefix, Sequence};
use generate::{
    Error,
    model::{Model as _, steps::Steps},
};

use super::{Options, STEP_SEQUENCES, truth::Truth};

/// Tokens of the text that is compared.
const TOKENS: usize = 200;

/// Compares bits; returns how many ways of computing gave others.
pub(crate) fn check(options: &Options, truth: &Truth) -> Result<usize, Error> {
    let mut steps = options.steps(true, false)?;
    let text = &truth.texts[0].ids[..TOKENS.min(truth.texts[0].ids.len())];
    let alone = steps.text(text, &[STEP_SEQUENCES])?;
    println!("invariance on {}, {} tokens", steps.llama.engine(), text.len());
    let mut wrong = 0;
    let mut compare = |what: &str, logits: &[Vec<f32>], first: usize| {
        let same = logits.iter().zip(&alone[first..]).filter(|(a, b)| bits(a).eq(bits(b))).count();
        println!("  {what}: {same} of {} tokens have the same bits", logits.len());
        wrong += usize::from(same != logits.len());
    };
    compare("in chunks of 1, 17 and 40", &steps.text(text, &[1, 17, 40])?, 0);
    compare("token by token", &steps.text(text, &[1])?, 0);
    compare("beside other texts", &beside(&mut steps, text, truth)?, 0);
    let (first, logits) = warm(&mut steps, text)?;
    compare("after a cached prefix", &logits, first);
    Ok(wrong)
}

/// The logits of a text that is computed in chunks, beside the prompts of the truth, first and last in the step by
/// turns.
fn beside(steps: &mut Steps, text: &[u32], truth: &Truth) -> Result<Vec<Vec<f32>>, Error> {
    let (mut logits, mut sequence) = (Vec::new(), steps.sequence());
    for (number, chunk) in text.chunks(STEP_SEQUENCES / 2).enumerate() {
        let prompt = &truth.prompts[number % truth.prompts.len()].ids;
        let prompt = &prompt[..prompt.len().min(STEP_SEQUENCES / 2)];
        let other = steps.sequence();
        let rows: Vec<usize> = (0..chunk.len()).collect();
        if number % 2 == 0 {
            let mut sequences = [sequence, other];
            logits.extend(steps.logits(&mut sequences, &[chunk, prompt], &rows)?);
            [sequence, _] = sequences;
        } else {
            let mut sequences = [other, sequence];
            let rows: Vec<usize> = rows.iter().map(|row| prompt.len() + row).collect();
            logits.extend(steps.logits(&mut sequences, &[prompt, chunk], &rows)?);
            [_, sequence] = sequences;
        }
    }
    Ok(logits)
}

/// The logits of what a prefix cache leaves to compute of a text, and the index of the first.
fn warm(steps: &mut Steps, text: &[u32]) -> Result<(usize, Vec<Vec<f32>>), Error> {
    let (prefix, namespace) = (Prefix::new(steps.llama.pages()), Namespace::default());
    let mut sequence = [steps.sequence()];
    for chunk in text.chunks(STEP_SEQUENCES) {
        steps.run(&mut sequence, &[chunk], &[])?;
    }
    sequence[0].cache(&prefix, &namespace, text)?;
    let hit = prefix.lookup(&namespace, text);
    let first = hit.tokens;
    let mut warm = [Sequence::with_prefix(steps.llama.pages(), hit)];
    let rest = &text[first..];
    Ok((first, steps.logits(&mut warm, &[rest], &(0..rest.len()).collect::<Vec<_>>())?))
}

fn bits(logits: &[f32]) -> impl Iterator<Item = u32> {
    logits.iter().map(|x| x.to_bits())
}
