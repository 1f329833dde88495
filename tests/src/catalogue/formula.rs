//! What a variant means, written down a second time: functions of coordinates in f64, without a hook of the language.

use std::fmt;

/// Where a logit stands, in the letters of the catalogue. For a row `j` and `kv_token` mean nothing, for a key the query's.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    /// Request.
    pub b: i64,
    /// Query within the request's queries.
    pub row: i64,
    /// Position of the query in its sequence.
    pub i: i64,
    /// Query among those of all requests.
    pub qo_token: i64,
    /// Query head.
    pub h: i64,
    /// KV head.
    pub g: i64,
    /// Queries of the request.
    pub qo_len: i64,
    /// Keys of the request.
    pub kv_len: i64,
    /// Position of the key.
    pub j: i64,
    /// Key among those of all requests.
    pub kv_token: i64,
}

/// The sum that a row was divided by.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Of all weights, without any maximum taken out: `exp(lse)`.
    pub weights: f64,
    /// Its logarithm.
    pub lse: f64,
}

type Mask = Box<dyn Fn(&At) -> bool>;
type Logit = Box<dyn Fn(f64, &At) -> f64>;
type RowFn = Box<dyn Fn(&mut [f64], &At)>;
type Score = Box<dyn Fn(&[f64], &[f64], &At) -> f64>;
type Weigh = Box<dyn Fn(f64, &At) -> (f64, f64)>;
type Sink = Box<dyn Fn(&At) -> f64>;
type Output = Box<dyn Fn(&mut [f64], Sum, &At)>;

/// The formula of a variant: what is not set is that of plain attention. All keys, all heads, no tiles.
pub struct Formula {
    pub(super) mask: Mask,
    pub(super) logit: Logit,
    pub(super) query: RowFn,
    pub(super) key: RowFn,
    pub(super) value: RowFn,
    pub(super) score: Option<Score>,
    /// And whether to divide by the sum.
    pub(super) weigh: Option<(Weigh, bool)>,
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
            weigh: None,
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
    #[must_use]
    pub fn plain() -> Self {
        Formula::default()
    }
    /// Plain attention under a mask: whether a logit counts.
    #[must_use]
    pub fn masked(mask: impl Fn(&At) -> bool + 'static) -> Self {
        Formula::plain().mask(mask)
    }
    /// Whether a logit counts.
    #[must_use]
    pub fn mask(self, mask: impl Fn(&At) -> bool + 'static) -> Self {
        Formula { mask: Box::new(mask), ..self }
    }
    /// The logit, from `z = scale * q . k`.
    #[must_use]
    pub fn logit(self, logit: impl Fn(f64, &At) -> f64 + 'static) -> Self {
        Formula { logit: Box::new(logit), ..self }
    }
    /// Rewrites a query row.
    #[must_use]
    pub fn query(self, query: impl Fn(&mut [f64], &At) + 'static) -> Self {
        Formula { query: Box::new(query), ..self }
    }
    /// Rewrites a key row.
    #[must_use]
    pub fn key(self, key: impl Fn(&mut [f64], &At) + 'static) -> Self {
        Formula { key: Box::new(key), ..self }
    }
    /// Rewrites a value row.
    #[must_use]
    pub fn value(self, value: impl Fn(&mut [f64], &At) + 'static) -> Self {
        Formula { value: Box::new(value), ..self }
    }
    /// `q . k` from the rows as they are given, in place of the product of the rewritten ones.
    #[must_use]
    pub fn score(self, score: impl Fn(&[f64], &[f64], &At) -> f64 + 'static) -> Self {
        Formula { score: Some(Box::new(score)), ..self }
    }
    /// The weight of a logit, and what it adds to the sum, in place of `exp`; `divide`: whether the output is divided by the sum.
    #[must_use]
    pub fn weigh(self, divide: bool, weigh: impl Fn(f64, &At) -> (f64, f64) + 'static) -> Self {
        Formula { weigh: Some((Box::new(weigh), divide)), ..self }
    }
    /// The logit of a key without a value.
    #[must_use]
    pub fn sink(self, sink: impl Fn(&At) -> f64 + 'static) -> Self {
        Formula { sink: Box::new(sink), ..self }
    }
    /// Rewrites a finished row.
    #[must_use]
    pub fn output(self, output: impl Fn(&mut [f64], Sum, &At) + 'static) -> Self {
        Formula { output: Box::new(output), ..self }
    }
}
