//! An entry: a row of the catalogue, as an expression and as a formula, for any batch shape.

use std::fmt::Display;

use attn_testing::Case;

use super::cpu_cases;
use crate::reference::{Formula, Shape};

/// A variant of the catalogue.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The row of the catalogue. A row may have several entries.
    pub row: u32,
    /// The name on the catalogue's page.
    pub name: &'static str,
    /// Instantiates the entry for a batch shape, which sizes its tensors. The formula captures the same tensor values.
    pub make: fn(&Shape) -> Instance,
    /// The error allowed on the CPU in f32, relative to the largest output.
    pub tolerance: f64,
    /// The cases of the CPU check.
    pub cases: fn() -> Vec<Case>,
}

impl Entry {
    /// An entry with the usual cases and tolerance.
    pub fn new(row: u32, name: &'static str, make: fn(&Shape) -> Instance) -> Self {
        Entry { row, name, make, tolerance: 2e-5, cases: cpu_cases::small }
    }
}

/// An entry for one batch.
#[derive(Debug)]
pub struct Instance {
    /// The expression, with its tensors written out.
    pub expr: String,
    /// Its meaning as a formula.
    pub formula: Formula,
}

impl Instance {
    /// An expression and its formula.
    pub fn new(expr: impl Into<String>, formula: Formula) -> Self {
        Instance { expr: expr.into(), formula }
    }
}

impl Shape {
    /// The shape of a case.
    pub fn of(case: &Case) -> Self {
        let pairs = case.qo_lens.to_vec().into_iter().zip(case.kv_lens.to_vec());
        Shape {
            lens: pairs.map(|(q, k)| (i64::from(q), i64::from(k))).collect(),
            qo_heads: case.qo_heads.into(),
            kv_heads: case.kv_heads.into(),
            head_dim: case.head_dim.into(),
            value_dim: case.head_dim.into(),
        }
    }

    /// The number of keys that a mask keeps: `near`, but two thirds of the longest request if that has 3500 keys or
    /// more.
    ///
    /// Long requests are there to be split and merged. A mask that keeps few keys would prevent the split.
    pub fn reach(&self, near: i64) -> i64 {
        let longest = self.lens.iter().map(|(_, kv)| *kv).max().unwrap_or(0);
        if longest >= 3500 { longest * 2 / 3 } else { near }
    }

    /// The number of requests.
    pub fn batch(&self) -> i64 {
        self.lens.len() as i64
    }

    /// The number of queries of all requests.
    pub fn qo_tokens(&self) -> i64 {
        self.lens.iter().map(|(q, _)| q).sum()
    }

    /// The number of keys of all requests.
    pub fn kv_tokens(&self) -> i64 {
        self.lens.iter().map(|(_, k)| k).sum()
    }

    /// A value for each query token, from its request and its position.
    pub fn per_query<T>(&self, value: impl Fn(i64, i64) -> T) -> Vec<T> {
        let positions = |(b, &(q, k)): (usize, &(i64, i64))| (k - q..k).map(move |i| (b as i64, i));
        self.lens.iter().enumerate().flat_map(positions).map(|(b, i)| value(b, i)).collect()
    }

    /// A value for each key token, from its request and its position.
    pub fn per_key<T>(&self, value: impl Fn(i64, i64) -> T) -> Vec<T> {
        let positions = |(b, &(_, k)): (usize, &(i64, i64))| (0..k).map(move |j| (b as i64, j));
        self.lens.iter().enumerate().flat_map(positions).map(|(b, j)| value(b, j)).collect()
    }
}

/// A list as an expression writes it.
pub fn list<T: Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    format!("[{}]", values.join(", "))
}

/// A list of rows of `columns` values, as an expression writes it.
pub fn rows<T: Display>(values: &[T], columns: usize) -> String {
    list(&values.chunks(columns).map(list).collect::<Vec<_>>())
}
