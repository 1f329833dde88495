//! The meaning of a variant as functions of coordinates in f64, independent of the language and its hooks.

use std::fmt;

/// The coordinates of a logit, with the letters of the catalogue.
///
/// For a query row, `j` and `kv_token` are unused; for a key row, the query's coordinates are. A sink has -1 for both.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    /// Request.
    pub b: i64,
    /// Index of the query within its request.
    pub row: i64,
    /// Position of the query in its sequence.
    pub i: i64,
    /// Index of the query in the batch.
    pub qo_token: i64,
    /// Query head.
    pub h: i64,
    /// KV head.
    pub g: i64,
    /// Number of queries of the request.
    pub qo_len: i64,
    /// Number of keys of the request.
    pub kv_len: i64,
    /// Position of the key.
    pub j: i64,
    /// Index of the key in the batch.
    pub kv_token: i64,
}

/// The causal mask: a query sees the keys up to its own position.
pub fn causal(at: &At) -> bool {
    at.j <= at.i
}

/// The denominator of a row.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The sum of all weights, with no maximum subtracted: `exp(lse)`.
    pub weights: f64,
    /// Its logarithm.
    pub lse: f64,
}

/// What a logit becomes.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// What multiplies the value of the key.
    pub p: f64,
    /// What is added to the denominator.
    pub addend: f64,
}

impl Weight {
    /// A weight that is also its addend to the denominator.
    pub fn both(p: f64) -> Self {
        Weight { p, addend: p }
    }
}

type Mask = Box<dyn Fn(&At) -> bool + Send + Sync>;
type Logit = Box<dyn Fn(f64, &At) -> f64 + Send + Sync>;
type RowFn = Box<dyn Fn(&mut [f64], &At) + Send + Sync>;
type Score = Box<dyn Fn(&[f64], &[f64], &At) -> f64 + Send + Sync>;
type WeightFn = Box<dyn Fn(f64, &At) -> Weight + Send + Sync>;
type Sink = Box<dyn Fn(&At) -> f64 + Send + Sync>;
type Output = Box<dyn Fn(&mut [f64], Sum, &At) + Send + Sync>;

/// The formula of a variant. Functions that are not set are those of plain attention.
pub struct Formula {
    pub(super) mask: Mask,
    pub(super) logit: Logit,
    pub(super) query: RowFn,
    pub(super) key: RowFn,
    pub(super) value: RowFn,
    pub(super) score: Option<Score>,
    /// The weight function, and whether the output is divided by the sum.
    pub(super) weight: Option<(WeightFn, bool)>,
    pub(super) sink: Sink,
    pub(super) output: Output,
}

impl Default for Formula {
    fn default() -> Self {
        Formula {
            mask: Box::new(|_| true),
            logit: Box::new(|z, _| z),
            query: Box::new(|_, _| ()),
            key: Box::new(|_, _| ()),
            value: Box::new(|_, _| ()),
            score: None,
            weight: None,
            sink: Box::new(|_| f64::NEG_INFINITY),
            output: Box::new(|_, _, _| ()),
        }
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Formula")
    }
}

impl Formula {
    /// Plain attention.
    pub fn plain() -> Self {
        Formula::default()
    }
    /// Plain attention under a mask, which returns whether a query sees a key.
    pub fn masked(mask: impl Fn(&At) -> bool + Send + Sync + 'static) -> Self {
        Formula::plain().mask(mask)
    }
    /// Sets the mask, which returns whether a query sees a key.
    pub fn mask(self, mask: impl Fn(&At) -> bool + Send + Sync + 'static) -> Self {
        Formula { mask: Box::new(mask), ..self }
    }
    /// Sets the transform of the logit `z = scale * q . k`.
    pub fn logit(self, logit: impl Fn(f64, &At) -> f64 + Send + Sync + 'static) -> Self {
        Formula { logit: Box::new(logit), ..self }
    }
    /// Sets the transform of a query row.
    pub fn query(self, query: impl Fn(&mut [f64], &At) + Send + Sync + 'static) -> Self {
        Formula { query: Box::new(query), ..self }
    }
    /// Sets the transform of a key row.
    pub fn key(self, key: impl Fn(&mut [f64], &At) + Send + Sync + 'static) -> Self {
        Formula { key: Box::new(key), ..self }
    }
    /// Sets the transform of a value row.
    pub fn value(self, value: impl Fn(&mut [f64], &At) + Send + Sync + 'static) -> Self {
        Formula { value: Box::new(value), ..self }
    }
    /// Sets the score of the untransformed rows. It replaces the product of the transformed ones.
    pub fn score(self, score: impl Fn(&[f64], &[f64], &At) -> f64 + Send + Sync + 'static) -> Self {
        Formula { score: Some(Box::new(score)), ..self }
    }
    /// Sets the weight of a logit and its addend to the denominator; both replace `exp`.
    ///
    /// `divide`: whether the output is divided by the sum.
    pub fn weight(self, divide: bool, weight: impl Fn(f64, &At) -> Weight + Send + Sync + 'static) -> Self {
        Formula { weight: Some((Box::new(weight), divide)), ..self }
    }
    /// Sets the logit of a virtual key without a value.
    pub fn sink(self, sink: impl Fn(&At) -> f64 + Send + Sync + 'static) -> Self {
        Formula { sink: Box::new(sink), ..self }
    }
    /// Sets the transform of an output row.
    pub fn output(self, output: impl Fn(&mut [f64], Sum, &At) + Send + Sync + 'static) -> Self {
        Formula { output: Box::new(output), ..self }
    }
}
