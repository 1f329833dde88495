//! The reference that shares nothing with the library: attention by its definition in f64, a loop over all queries and
//! all keys. `tests/kernels/reference.rs` compares it with outputs of numpy, and `tests/kernels/cpu.rs` with the oracle
//! of `attn-core`.
//!
//! Letters are those of the catalogue ([`At`]): `b` is a request, `i` and `j` are the positions of a query and a key,
//! `h` and `g` a query head and its KV head; `z` is a logit, `p` a weight.

mod formula;

pub use formula::{At, Formula, Sum, Weight, causal};

/// The lengths and sizes of a batch.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Shape {
    /// Queries and keys of each request.
    pub lens: Vec<(i64, i64)>,
    pub qo_heads: i64,
    pub kv_heads: i64,
    /// Elements of a query or key.
    pub head_dim: i64,
    /// Elements of a value.
    pub value_dim: i64,
}

/// Logical tensors of shape (tokens, heads, head_dim or value_dim), independent of the memory layout. Rows past the
/// batch are not read.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Packed {
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
}

/// Output (tokens, heads, value_dim) and log-sum-exp (tokens, heads).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Attended {
    pub o: Vec<f64>,
    pub lse: Vec<f64>,
}

/// One key and its value: the stored key, and both after their transforms.
struct Key<'a> {
    at: At,
    raw_key: &'a [f64],
    key: Vec<f64>,
    value: Vec<f64>,
}

/// Computes a formula over a batch.
pub fn attend(formula: &Formula, shape: &Shape, packed: &Packed, scale: f64) -> Attended {
    let (dim, value_dim) = (shape.head_dim as usize, shape.value_dim as usize);
    let heads_per_kv_head = shape.qo_heads / shape.kv_heads;
    let mut out = Attended { o: Vec::new(), lse: Vec::new() };
    let (mut first_query, mut first_key) = (0, 0);
    for (b, &(qo_len, kv_len)) in shape.lens.iter().enumerate() {
        let request = At { b: b as i64, qo_len, kv_len, ..At::default() };
        let keys_of = |g: i64| -> Vec<Key<'_>> {
            let key = |j: i64| {
                let at = At { g, j, kv_token: first_key + j, ..request };
                let row = (at.kv_token * shape.kv_heads + g) as usize;
                let raw_key = &packed.k[row * dim..][..dim];
                let (mut key, mut value) = (raw_key.to_vec(), packed.v[row * value_dim..][..value_dim].to_vec());
                (formula.key)(&mut key, &at);
                (formula.value)(&mut value, &at);
                Key { at, raw_key, key, value }
            };
            (0..kv_len).map(key).collect()
        };
        let keys: Vec<Vec<Key<'_>>> = (0..shape.kv_heads).map(keys_of).collect();
        for row in 0..qo_len {
            for h in 0..shape.qo_heads {
                let qo_token = first_query + row;
                let at = At { row, i: row + kv_len - qo_len, qo_token, h, g: h / heads_per_kv_head, ..request };
                let q = &packed.q[(qo_token * shape.qo_heads + h) as usize * dim..][..dim];
                let mut o = vec![0.0; value_dim];
                let lse = attend_row(formula, q, &keys[at.g as usize], at, scale, &mut o);
                out.o.extend(o);
                out.lse.push(lse);
            }
        }
        (first_query, first_key) = (first_query + qo_len, first_key + kv_len);
    }
    out
}

/// Adds to the zeros `o`, and returns the log-sum-exp.
fn attend_row(formula: &Formula, raw_query: &[f64], keys: &[Key<'_>], at: At, scale: f64, o: &mut [f64]) -> f64 {
    let mut q = raw_query.to_vec();
    (formula.query)(&mut q, &at);
    let mut logits = Vec::new();
    for key in keys {
        let at = At { j: key.at.j, kv_token: key.at.kv_token, ..at };
        if (formula.mask)(&at) {
            let score = match &formula.score {
                Some(score) => score(raw_query, key.raw_key, &at),
                None => q.iter().zip(&key.key).map(|(a, b)| a * b).sum(),
            };
            logits.push(((formula.logit)(score * scale, &at), key, at));
        }
    }
    let sink = (formula.sink)(&at);
    let max = logits.iter().map(|(z, ..)| *z).fold(sink, f64::max);
    // softmax subtracts its maximum against overflow; custom weights are taken as they are
    let subtracted = if formula.weight.is_none() && max > f64::NEG_INFINITY { max } else { 0.0 };
    let weight = |z: f64, at: &At| match &formula.weight {
        Some((weight, _)) => weight(z, at),
        None => Weight::both((z - subtracted).exp()),
    };
    let of_sink = At { j: -1, kv_token: -1, ..at };
    let mut sum = if sink > f64::NEG_INFINITY { weight(sink, &of_sink).addend } else { 0.0 };
    for (z, key, at) in &logits {
        let Weight { p, addend } = weight(*z, at);
        sum += addend;
        o.iter_mut().zip(&key.value).for_each(|(o, v)| *o += p * v);
    }
    // weights may be negative, and so may their sum: it divides, but has no logarithm
    if sum != 0.0 && formula.weight.as_ref().is_none_or(|(_, divide)| *divide) {
        o.iter_mut().for_each(|o| *o /= sum);
    }
    let lse = if sum > 0.0 { sum.ln() + subtracted } else { f64::NEG_INFINITY };
    (formula.output)(o, Sum { weights: sum * subtracted.exp(), lse }, &at);
    lse
}
