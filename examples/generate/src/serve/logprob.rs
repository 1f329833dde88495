//! Log-probabilities in JSON.

use serde_json::{Value, json};

/// JSON has no infinity. vLLM sends this for a probability of zero.
const ZERO_PROBABILITY: f32 = -9999.0;

pub(crate) fn finite(logprob: f32) -> Value {
    // a NaN compares as false, and becomes the same
    json!(if logprob > ZERO_PROBABILITY { logprob } else { ZERO_PROBABILITY })
}
