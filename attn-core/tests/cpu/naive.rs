//! Attention by its definition, in f64, for one row.

/// The coordinates of a logit, as in `LogitIndex`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) request: i64,
    pub(crate) qo_row: i64,
    pub(crate) qo_pos: i64,
    pub(crate) qo_token: i64,
    pub(crate) qo_head: i64,
    pub(crate) kv_head: i64,
    pub(crate) kv_len: i64,
    pub(crate) key: i64,
    pub(crate) kv_token: i64,
}

/// A normaliser other than softmax.
#[derive(Clone, Copy)]
pub(crate) enum Own {
    /// The weight of a logit, and whether the output is divided by the sum of the weights.
    Plain(fn(f64) -> f64, bool),
    /// The weight of a logit and its term of the denominator, both for a row max of 0.
    Scaled(fn(f64) -> f64, fn(f64, &At) -> f64),
}

/// An independent definition of one branch of a variant: its transform and its mask.
#[derive(Clone, Copy)]
pub(crate) struct Branch {
    /// Rotates pairs `(d, d + n / 2)` of queries and keys by this angle times the position.
    pub(crate) angle: f64,
    pub(crate) logit: fn(f64, &At) -> f64,
    pub(crate) mask: fn(&At) -> bool,
}

/// An independent definition of a variant.
#[derive(Clone, Copy)]
pub(crate) struct Naive {
    /// The branches. A key belongs to the first branch whose mask attends to it.
    pub(crate) branches: &'static [Branch],
    pub(crate) value: fn(f64, &At) -> f64,
    /// The only keys that a row may attend to.
    pub(crate) list: Option<fn(&At) -> Vec<i64>>,
    pub(crate) own: Option<Own>,
    pub(crate) sink: fn(&At) -> f64,
    pub(crate) output: fn(f64, f64) -> f64,
}

pub(crate) const ALL: Branch = Branch { angle: 0.0, logit: |logit, _| logit, mask: |_| true };

pub(crate) const FULL: Naive =
    Naive { branches: &[ALL], value: |x, _| x, list: None, own: None, sink: |_| f64::NEG_INFINITY, output: |o, _| o };

impl Branch {
    fn rotate(&self, row: &[f64], pos: i64) -> Vec<f64> {
        let (sin, cos) = (self.angle * pos as f64).sin_cos();
        let half = row.len() / 2;
        let mut out = row.to_vec();
        for d in 0..half {
            out[d] = row[d] * cos - row[d + half] * sin;
            out[d + half] = row[d + half] * cos + row[d] * sin;
        }
        out
    }
}

/// A key row as each branch has it, and a value row.
pub(crate) type Key = (Vec<Vec<f64>>, Vec<f64>);

impl Naive {
    /// A key and a value; `at` has no query.
    pub(crate) fn key(&self, k: &[f64], v: &[f64], at: &At) -> Key {
        let keys = self.branches.iter().map(|branch| branch.rotate(k, at.key)).collect();
        (keys, v.iter().map(|x| (self.value)(*x, at)).collect())
    }

    /// Output and log-sum-exp of a row at `at` (without key).
    pub(crate) fn attend(&self, q: &[f64], scale: f64, keys: &[Key], value_dim: usize, at: At) -> (Vec<f64>, f64) {
        let listed = self.list.map(|list| list(&at));
        let queries: Vec<_> = self.branches.iter().map(|branch| branch.rotate(q, at.qo_pos)).collect();
        let mut attended = Vec::new();
        for (key, (k, v)) in keys.iter().enumerate() {
            let at = At { key: key as i64, kv_token: at.kv_token + key as i64, ..at };
            let branch = self.branches.iter().position(|branch| (branch.mask)(&at));
            let listed = listed.as_ref().is_none_or(|list| list.contains(&at.key));
            if let (Some(branch), true) = (branch, listed) {
                let dot: f64 = queries[branch].iter().zip(&k[branch]).map(|(a, b)| a * b).sum();
                attended.push(((self.branches[branch].logit)(dot * scale, &at), v, at));
            }
        }
        let sink = (self.sink)(&at);
        let has_sink = sink > f64::NEG_INFINITY;
        // only softmax subtracts the row max: f64 has enough range for the logits of these tests
        let max = match self.own {
            None => attended.iter().map(|(logit, ..)| *logit).fold(sink, f64::max),
            Some(_) => 0.0,
        };
        let weight = |logit: f64| match self.own {
            Some(Own::Plain(weight, _) | Own::Scaled(weight, _)) => weight(logit),
            None => (logit - max).exp(),
        };
        let denominator = |logit: f64, at: &At| match self.own {
            Some(Own::Scaled(_, denominator)) => denominator(logit, at),
            _ => weight(logit),
        };
        let mut sum = if has_sink { denominator(sink, &At { key: -1, kv_token: -1, ..at }) } else { 0.0 };
        let mut o = vec![0.0; value_dim];
        for (logit, v, at) in attended {
            sum += denominator(logit, &at);
            o.iter_mut().zip(v).for_each(|(o, v)| *o += weight(logit) * v);
        }
        let lse = if sum == 0.0 { f64::NEG_INFINITY } else { max + sum.ln() };
        let divide = !matches!(self.own, Some(Own::Plain(_, false))) && sum != 0.0;
        o.iter_mut().for_each(|x| *x = (self.output)(if divide { *x / sum } else { *x }, lse));
        (o, lse)
    }
}
