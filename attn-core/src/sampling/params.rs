//! The arguments of sampling.

use crate::ops::{Array, ArrayMut, Number};
use crate::tensor::TensorMut;

/// A parameter: one value for all rows, or an array with a value a row, in memory of the stream. A captured launch
/// reads the array again at each replay.
#[derive(Clone, Copy, Debug)]
pub enum PerRow<'a, T> {
    /// One value for all rows.
    All(T),
    /// A value a row.
    Rows(Array<'a, T>),
}

impl<'a, T: Number> PerRow<'a, T> {
    /// The array, if there is one.
    #[must_use]
    pub fn rows(&self) -> Option<&Array<'a, T>> {
        match self {
            PerRow::All(_) => None,
            PerRow::Rows(rows) => Some(rows),
        }
    }

    /// The value of a row, where the array is in host memory.
    pub(super) fn on_host(&self, name: &'static str) -> Result<PerRow<'a, T>, crate::ops::OpError> {
        match self {
            PerRow::All(_) => Ok(*self),
            PerRow::Rows(rows) => Ok(PerRow::Rows(Array::host(rows.on_host(name)?))),
        }
    }

    /// The value of a row of [`PerRow::on_host`].
    pub(super) fn of(&self, row: usize, default: T) -> T {
        match self {
            PerRow::All(value) => *value,
            PerRow::Rows(rows) => rows.as_host().map_or(default, |rows| rows[row]),
        }
    }
}

impl<T> From<T> for PerRow<'_, T> {
    fn from(value: T) -> Self {
        PerRow::All(value)
    }
}

/// What the rows are that tokens are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Logits.
    Logits,
    /// Probabilities, which need not sum to 1. What is not a positive normal number counts as 0.
    Probs,
}

impl Source {
    /// The name of the tensor in errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Logits => "logits",
            Source::Probs => "probs",
        }
    }
}

/// How top-k and top-p combine, as in FlashInfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FilterOrder {
    /// Top-p keeps a share of what top-k has kept: the distribution is normalised in between.
    #[default]
    TopKFirst,
    /// Both look at the whole distribution.
    Joint,
}

/// Of which distribution log-probabilities are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogProbs {
    /// After penalties, token mask and temperature, before the filters.
    #[default]
    Scaled,
    /// After the filters: what the token was drawn from.
    Kept,
}

/// Penalties for tokens that have occurred. They need [`SampleOut::counts`].
///
/// `l` becomes `l / repetition` if it is above 0 and else `l * repetition`, where the token is in the prompt or was
/// drawn (Keskar et al., "CTRL", 2019); minus `presence` if it was drawn; minus `frequency` times how often.
#[derive(Clone, Copy, Debug)]
pub struct Penalties<'a> {
    /// 1: off. f32 a row.
    pub repetition: PerRow<'a, f32>,
    /// 0: off. f32 a row.
    pub presence: PerRow<'a, f32>,
    /// 0: off. f32 a row.
    pub frequency: PerRow<'a, f32>,
}

impl Default for Penalties<'_> {
    fn default() -> Self {
        Penalties { repetition: 1.0.into(), presence: 0.0.into(), frequency: 0.0.into() }
    }
}

/// What the tokens are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct SamplingParams<'a> {
    /// Logits are divided by it. 0, negative or NaN: greedy, the likeliest token. Default 1.
    pub temperature: PerRow<'a, f32>,
    /// Keeps the k likeliest tokens. 0 or negative: off, as by default.
    pub top_k: PerRow<'a, i32>,
    /// Keeps the fewest likeliest tokens whose probabilities sum to at least p, and never fewer than one. 1 or more, or
    /// NaN: off. Default 1.
    pub top_p: PerRow<'a, f32>,
    /// Keeps tokens that are at least `min_p` times as likely as the likeliest. 0, negative or NaN: off, as by default.
    pub min_p: PerRow<'a, f32>,
    /// How top-k and top-p combine.
    pub order: FilterOrder,
    /// Penalties for tokens that have occurred.
    pub penalties: Option<Penalties<'a>>,
    /// Allowed tokens (a grammar): for each row `ceil(vocab / 32)` words, of which bit `i % 32` of word `i / 32` is 1
    /// if token i is allowed.
    pub token_mask: Option<Array<'a, u32>>,
    /// The seed of each row's random numbers. Rows with the same seed and position draw with the same number, so that
    /// requests should have seeds of their own. Default 0.
    pub seeds: PerRow<'a, u64>,
    /// The row of logits that each row of the results is drawn from: many draws from one row. `None`: its own. On a
    /// device, a row out of range gives id -1.
    pub indices: Option<Array<'a, i32>>,
    /// Of which distribution log-probabilities are.
    pub log_probs: LogProbs,
}

impl Default for SamplingParams<'_> {
    fn default() -> Self {
        SamplingParams {
            temperature: 1.0.into(),
            top_k: 0.into(),
            top_p: 1.0.into(),
            min_p: 0.0.into(),
            order: FilterOrder::default(),
            penalties: None,
            token_mask: None,
            seeds: 0.into(),
            indices: None,
            log_probs: LogProbs::default(),
        }
    }
}

/// The likeliest tokens of each row, in falling order, of the distribution of [`LogProbs::Scaled`].
#[derive(Debug)]
pub struct TopLogProbs<'a> {
    /// (rows, count): tokens; -1 where there are fewer.
    pub ids: ArrayMut<'a, i32>,
    /// (rows, count): their natural log-probabilities; -inf where there are fewer.
    pub log_probs: ArrayMut<'a, f32>,
    /// Tokens a row, 1 to 64.
    pub count: usize,
}

/// What sampling writes.
#[derive(Debug)]
pub struct SampleOut<'a> {
    /// (rows): the drawn tokens; -1 for a row without an allowed token.
    pub ids: ArrayMut<'a, i32>,
    /// (rows): the position whose random number each row draws with. It is advanced by 1, on the device too, so that a
    /// replayed graph draws anew.
    pub positions: ArrayMut<'a, i64>,
    /// (rows, vocab): how often each token was drawn, plus 2^31 if it is in the prompt. The drawn token is counted.
    pub counts: Option<ArrayMut<'a, u32>>,
    /// (rows): the natural log-probability of the drawn token; -inf for id -1.
    pub log_probs: Option<ArrayMut<'a, f32>>,
    /// (rows, vocab) f32: the probabilities that the token was drawn from, after the filters.
    pub probs: Option<TensorMut<'a>>,
    /// The likeliest tokens.
    pub top: Option<TopLogProbs<'a>>,
}

impl<'a> SampleOut<'a> {
    /// Ids and positions alone.
    #[must_use]
    pub fn new(ids: ArrayMut<'a, i32>, positions: ArrayMut<'a, i64>) -> Self {
        SampleOut { ids, positions, counts: None, log_probs: None, probs: None, top: None }
    }
}
