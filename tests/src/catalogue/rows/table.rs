//! Parameter tensors that expressions print and formulas read.

use std::fmt;

/// A row-major tensor whose values are exact in f32.
#[derive(Clone, Debug)]
pub struct Table {
    shape: Vec<i64>,
    values: Vec<f64>,
}

impl Table {
    /// A tensor from a function of its indices.
    pub fn new(shape: &[i64], value: impl Fn(&[i64]) -> f64) -> Self {
        let mut values = Vec::new();
        for flat in 0..shape.iter().product() {
            let mut rest: i64 = flat;
            let mut index = vec![0; shape.len()];
            for (i, n) in index.iter_mut().zip(shape).rev() {
                *i = rest % n;
                rest /= n;
            }
            values.push(f64::from(value(&index) as f32));
        }
        Table { shape: shape.to_vec(), values }
    }

    /// Values spread over [-2, 2], in sixteenths, which f16 and bf16 hold exactly.
    pub fn waves(seed: i64, shape: &[i64]) -> Self {
        let step = |index: &[i64]| index.iter().fold(seed * 23 + 7, |sum, i| sum * 31 + i * 14);
        Table::new(shape, |index| (step(index).rem_euclid(65) - 32) as f64 / 16.0)
    }

    /// The value at an index.
    ///
    /// # Panics
    /// The index is out of bounds: formulas must not rely on clamping.
    pub fn at(&self, index: &[i64]) -> f64 {
        assert!(index.len() == self.shape.len() && index.iter().zip(&self.shape).all(|(i, n)| (0..*n).contains(i)));
        self.values[index.iter().zip(&self.shape).fold(0, |flat, (i, n)| flat * n + i) as usize]
    }

    /// The values, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, axis: usize, first: usize) -> fmt::Result {
        let Some(&n) = self.shape.get(axis) else { return write!(f, "{}", self.values[first]) };
        let stride: i64 = self.shape[axis + 1..].iter().product();
        f.write_str("[")?;
        for i in 0..n {
            f.write_str(if i > 0 { "," } else { "" })?;
            self.write(f, axis + 1, first + (i * stride) as usize)?;
        }
        f.write_str("]")
    }
}

/// Nested lists, as an expression writes them.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0, 0)
    }
}
