//! Log-probabilities in JSON.

use serde::Serialize;

use super::text::Text;

/// JSON has no infinity. vLLM sends this for a probability of zero.
const ZERO_PROBABILITY: f32 = -9999.0;

pub(crate) fn finite(logprob: f32) -> f32 {
    // a NaN compares as false, and becomes the same
    if logprob > ZERO_PROBABILITY { logprob } else { ZERO_PROBABILITY }
}

/// The bytes of a token; `None` for one without text.
pub(crate) fn bytes(text: &dyn Text, token: u32) -> Option<Vec<u8>> {
    Some(text.bytes(token)).filter(|bytes| !bytes.is_empty())
}

/// The text of a value whose keys are texts.
pub(crate) fn json_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("every key is a text, and every number is finite")
}

/// The names of likely tokens, each once: of tokens with one name the likeliest has it, and the others are vLLM's
/// `token_id:N`.
pub(crate) fn distinct(tokens: &[(u32, f32)], text: &dyn Text) -> Vec<(String, f32)> {
    let mut named: Vec<(String, f32)> = Vec::with_capacity(tokens.len());
    for &(token, logprob) in tokens {
        let name = text.name(token);
        let is_taken = named.iter().any(|(other, _)| *other == name);
        named.push((if is_taken { format!("token_id:{token}") } else { name }, finite(logprob)));
    }
    named
}
