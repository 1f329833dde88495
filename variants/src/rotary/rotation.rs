//! What the rotary variants share.

use attn::{device_fn, lang::approx};

/// `(cosine, sine)` of an angle in radians, the result that `rotate_half` and `rotate_pairs` take. The absolute error
/// on a GPU is below 2^-20 for angles below 2^22 radians.
#[device_fn]
pub(crate) fn cos_sin(angle: f32) -> (f32, f32) {
    let (sin, cos) = approx::sin_cos(angle);
    (cos, sin)
}

#[cfg(test)]
pub(crate) mod tests {
    /// Rotates the pairs of a row by an angle each, in f64.
    pub(crate) fn rotated(row: &[f32], interleaved: bool, angles: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        for (i, angle) in angles.iter().enumerate() {
            let (first, second) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + angles.len()) };
            let (a, b) = (f64::from(row[first]), f64::from(row[second]));
            out[first] = a * angle.cos() - b * angle.sin();
            out[second] = b * angle.cos() + a * angle.sin();
        }
        out
    }

    #[test]
    fn the_cosine_comes_first() {
        assert_eq!(super::cos_sin(0.0), (1.0, 0.0));
        let (cos, sin) = super::cos_sin(2.5);
        assert!((f64::from(cos) - 2.5f64.cos()).abs() < 1e-7 && (f64::from(sin) - 2.5f64.sin()).abs() < 1e-7);
    }
}
