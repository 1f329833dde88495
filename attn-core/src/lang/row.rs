//! Rows of `head_dim` elements, as hooks see them.

/// A row of `head_dim` elements in `f32`: a query, a key, a value, or an output.
///
/// It has combinators only, so that a kernel can distribute a row over lanes or tensor-core fragments. Closures get the
/// index `d` in `0..dim()` and must not depend on the order of calls.
pub trait Row {
    /// Elements of the row.
    fn dim(&self) -> i32;
    /// `x[d] = f(d, x[d])`.
    fn map(&mut self, f: impl Fn(i32, f32) -> f32);
    /// `x[d] = f(d, x[d], t(d))`, for example with `t` a parameter tensor.
    fn zip(&mut self, t: impl Fn(i32) -> f32, f: impl Fn(i32, f32, f32) -> f32);
    /// Sum of `x[d] * f(d)`.
    fn dot(&self, f: impl Fn(i32) -> f32) -> f32;
    /// Rotates the pairs `(d, d + rot / 2)`, `d < rot / 2`, by `f(d) = (cos, sin)`: half-split rotary embedding.
    /// `(a, b)` becomes `(a cos - b sin, b cos + a sin)`. Values from `rot` on stay. `rot` is even and at most `dim()`.
    fn rotate_half(&mut self, rot: i32, f: impl Fn(i32) -> (f32, f32));
    /// Rotates the pairs `(2 i, 2 i + 1)`, `i < rot / 2`, by `f(i) = (cos, sin)`: interleaved rotary embedding.
    fn rotate_pairs(&mut self, rot: i32, f: impl Fn(i32) -> (f32, f32));
    /// The Walsh-Hadamard transform, `x <- H x / sqrt(n)`, of each `n` elements: a rotation that is its own inverse,
    /// after which elements have similar sizes. `n` is the largest power of two that divides `dim()`: all of a row, or
    /// 32 of 96. The bits are the same on every device.
    fn hadamard(&mut self);
    /// Sum of the values.
    fn sum(&self) -> f32;
    /// Sum of the squares.
    fn sum_sq(&self) -> f32;
    /// Largest magnitude.
    fn max_abs(&self) -> f32;
}

/// The row on the CPU. Reductions accumulate in f64.
impl Row for &mut [f32] {
    fn dim(&self) -> i32 {
        i32::try_from(self.len()).expect("head_dim is at most a few hundred")
    }

    fn map(&mut self, f: impl Fn(i32, f32) -> f32) {
        for (d, x) in (0..).zip(self.iter_mut()) {
            *x = f(d, *x);
        }
    }

    fn zip(&mut self, t: impl Fn(i32) -> f32, f: impl Fn(i32, f32, f32) -> f32) {
        self.map(|d, x| f(d, x, t(d)));
    }

    fn dot(&self, f: impl Fn(i32) -> f32) -> f32 {
        (0..).zip(self.iter()).map(|(d, &x)| f64::from(x) * f64::from(f(d))).sum::<f64>() as f32
    }

    fn rotate_half(&mut self, rot: i32, f: impl Fn(i32) -> (f32, f32)) {
        let half = pairs(rot, self.len());
        for d in 0..half {
            let (a, b) = (self[d], self[d + half]);
            let (cos, sin) = f(d as i32);
            self[d] = a * cos - b * sin;
            self[d + half] = b * cos + a * sin;
        }
    }

    fn rotate_pairs(&mut self, rot: i32, f: impl Fn(i32) -> (f32, f32)) {
        for i in 0..pairs(rot, self.len()) {
            let (a, b) = (self[2 * i], self[2 * i + 1]);
            let (cos, sin) = f(i as i32);
            self[2 * i] = a * cos - b * sin;
            self[2 * i + 1] = b * cos + a * sin;
        }
    }

    fn hadamard(&mut self) {
        let block = self.len() & self.len().wrapping_neg();
        let mut stride = 1;
        while stride < block {
            for pairs in self.chunks_exact_mut(2 * stride) {
                let (low, high) = pairs.split_at_mut(stride);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            stride *= 2;
        }
        let scale = 1.0 / (block as f32).sqrt();
        self.map(|_, x| x * scale);
    }

    fn sum(&self) -> f32 {
        self.iter().map(|&x| f64::from(x)).sum::<f64>() as f32
    }

    fn sum_sq(&self) -> f32 {
        self.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() as f32
    }

    fn max_abs(&self) -> f32 {
        self.iter().fold(0.0, |m, x| m.max(x.abs()))
    }
}

/// Pairs in the first `rot` of `dim` values.
fn pairs(rot: i32, dim: usize) -> usize {
    usize::try_from(rot).unwrap_or(0).min(dim) / 2
}

/// The softmax state of a query row, as `output_transform` sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowState {
    /// Largest logit (0 under `Normalizer::Plain`).
    pub row_max: f32,
    /// The row sum that the output was divided by, relative to `exp(row_max)`, sink included.
    pub denominator: f32,
    /// Log-sum-exp of the logits, natural logarithm, sink included.
    pub lse: f32,
}

#[cfg(test)]
mod tests {
    use super::Row;

    /// A quarter turn: `(a, b)` becomes `(-b, a)`.
    fn quarter(_: i32) -> (f32, f32) {
        (0.0, 1.0)
    }

    #[test]
    fn rotations_change_the_first_rot_elements_only() {
        let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        (&mut x[..]).rotate_half(4, quarter);
        assert_eq!(x, [-3.0, -4.0, 1.0, 2.0, 5.0, 6.0]);
        let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        (&mut x[..]).rotate_pairs(4, quarter);
        assert_eq!(x, [-2.0, 1.0, -4.0, 3.0, 5.0, 6.0]);
        let mut x = [1.0, 2.0];
        (&mut x[..]).rotate_half(-2, quarter);
        (&mut x[..]).rotate_pairs(100, quarter);
        assert_eq!(x, [-2.0, 1.0], "never past the row");
    }

    #[test]
    fn hadamard_of_other_dims_is_that_of_blocks() {
        let x: Vec<f32> = (0..24u16).map(|d| f32::from(d * d % 11) - 4.0).collect();
        let (mut y, mut blocks) = (x.clone(), x);
        (&mut y[..]).hadamard();
        blocks.chunks_mut(8).for_each(|mut block| block.hadamard());
        assert_eq!(y, blocks);
    }

    #[test]
    fn hadamard_is_the_matrix_of_signs() {
        let x: Vec<f32> = (0..16u8).map(|d| f32::from(d * d % 11) - 4.0).collect();
        let mut y = x.clone();
        (&mut y[..]).hadamard();
        for (i, y) in y.iter().enumerate() {
            let sign = |d: usize| [1.0, -1.0][((i & d).count_ones() % 2) as usize];
            let sum: f32 = x.iter().enumerate().map(|(d, x)| sign(d) * x).sum();
            assert_eq!(*y, sum / 4.0);
        }
        (&mut y[..]).hadamard();
        assert_eq!(y, x);
    }

    #[test]
    fn reductions() {
        let mut x = [3.0f32, -4.0];
        let row = &mut x[..];
        assert_eq!((row.dim(), row.sum(), row.sum_sq(), row.max_abs()), (2, -1.0, 25.0, 4.0));
        assert_eq!(row.dot(|d| (d + 1) as f32), -5.0);
    }

    #[test]
    fn zip_takes_an_element_of_the_second_operand() {
        let mut x = [1.0, 2.0, 3.0];
        (&mut x[..]).zip(|d| d as f32, |d, x, t| x * t - d as f32 / 2.0);
        assert_eq!(x, [0.0, 1.5, 5.0]);
    }
}
