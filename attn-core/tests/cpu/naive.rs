//! Attention by its definition, in f64, for one row.

/// Where a logit stands, as the language defines it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) request: i64,
    pub(crate) qo_row: i64,
    pub(crate) qo_pos: i64,
    pub(crate) qo_token: i64,
    pub(crate) qo_head: i64,
    pub(crate) kv_head: i64,
    pub(crate) key: i64,
    pub(crate) kv_token: i64,
}

/// The weight of a logit.
type Weight = fn(f64) -> f64;

/// What a variant does, written down a second time.
pub(crate) struct Naive {
    /// Rotates pairs `(d, d + n / 2)` of queries and keys by this angle times the position.
    pub(crate) angle: f64,
    pub(crate) logit: fn(f64, &At) -> f64,
    pub(crate) mask: fn(&At) -> bool,
    /// Weight of a logit, and whether to divide by their sum, where it is not softmax.
    pub(crate) plain: Option<(Weight, bool)>,
    pub(crate) sink: fn(&At) -> f64,
    pub(crate) output: fn(f64, f64) -> f64,
}

pub(crate) const FULL: Naive = Naive {
    angle: 0.0,
    logit: |logit, _| logit,
    mask: |_| true,
    plain: None,
    sink: |_| f64::NEG_INFINITY,
    output: |o, _| o,
};

impl Naive {
    pub(crate) fn rotate(&self, row: &[f64], pos: i64) -> Vec<f64> {
        let (sin, cos) = (self.angle * pos as f64).sin_cos();
        let half = row.len() / 2;
        let mut out = row.to_vec();
        for d in 0..half {
            out[d] = row[d] * cos - row[d + half] * sin;
            out[d + half] = row[d + half] * cos + row[d] * sin;
        }
        out
    }

    /// Output and log-sum-exp of a row at `at` (without key); `keys` are (transformed key, value).
    pub(crate) fn attend(&self, q: &[f64], scale: f64, keys: &[(Vec<f64>, Vec<f64>)], at: At) -> (Vec<f64>, f64) {
        let q = self.rotate(q, at.qo_pos);
        let mut attended = Vec::new();
        for (key, (k, v)) in keys.iter().enumerate() {
            let at = At { key: key as i64, kv_token: at.kv_token + key as i64, ..at };
            if (self.mask)(&at) {
                let dot: f64 = q.iter().zip(k).map(|(a, b)| a * b).sum();
                attended.push(((self.logit)(dot * scale, &at), v));
            }
        }
        let sink = (self.sink)(&at);
        let max = attended.iter().map(|(logit, _)| *logit).fold(sink, f64::max);
        let weight = |logit: f64| match self.plain {
            Some((weight, _)) => weight(logit),
            None => (logit - max).exp(),
        };
        let mut sum = if sink > f64::NEG_INFINITY { weight(sink) } else { 0.0 };
        let mut o = vec![0.0; q.len()];
        for (logit, v) in attended {
            let weight = weight(logit);
            sum += weight;
            o.iter_mut().zip(v).for_each(|(o, v)| *o += weight * v);
        }
        let lse = match (sum == 0.0, self.plain) {
            (true, _) => f64::NEG_INFINITY,
            (false, Some(_)) => sum.ln(),
            (false, None) => max + sum.ln(),
        };
        let divide = self.plain.is_none_or(|(_, divide)| divide) && sum != 0.0;
        o.iter_mut().for_each(|x| *x = (self.output)(if divide { *x / sum } else { *x }, lse));
        (o, lse)
    }
}
