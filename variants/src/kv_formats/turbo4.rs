use attn::lang::kv_format::LinearCodes;
use attn::lang::{Dims, EncodeRow, KvFormat, Packed, PackedMut, Tensor1, bits};
use attn::{VariantParams, kv_format};

/// Four bits an element: the nearest of 16 levels for normally distributed numbers, times a norm in f32.
///
/// `x = levels[code] * norm`. The code of an element is the number of midpoints between levels that lie below `x / (|x|
/// / sqrt(dim))`, `|x|` the Euclidean norm of the row; `norm` is `|x|` divided by that of the levels, so that lengths
/// are kept. The levels minimise the mean square error of a normal distribution of variance 1 (Lloyd-Max), which
/// elements have approximately after a rotation: use it with `hadamard`. This is TurboQuant (arXiv 2504.19874) at four
/// bits without its second stage, and older work has the same scheme: DRIVE (arXiv 2105.08339), EDEN (arXiv
/// 2108.08842), HIGGS (arXiv 2411.17525). A row is `dim / 2` bytes of codes, the even element in the lower half of a
/// byte, and 4 bytes of side data. A row with a NaN is read as NaN, one with an infinity as infinities.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Turbo4 {
    /// The levels, ascending: numbers of f16.
    #[shape(16)]
    #[default(normal)]
    #[monotone]
    #[require(levels.as_slice().iter().all(|x| x.is_finite()))]
    pub levels: Tensor1<f32>,
}

#[kv_format(name = "turbo4")]
impl KvFormat for Turbo4 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim / 2
    }

    fn side_bytes(&self, _dim: i32) -> i32 {
        4
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        let length = x.sum_sq(0, x.dim()).sqrt();
        let unit = length / (x.dim() as f32).sqrt();
        let of_levels = x.sum(0, x.dim(), |_, v| {
            let mut code = 0;
            for i in 0..15 {
                code += if (self.levels[i] + self.levels[i + 1]) * 0.5 < v / unit { 1 } else { 0 };
            }
            self.levels[code] * self.levels[code]
        });
        side.set_f32(0, length / of_levels.sqrt());
        codes.pack4(0, x, 0, x.dim(), |_, v| {
            let mut code = 0;
            for i in 0..15 {
                code += if (self.levels[i] + self.levels[i + 1]) * 0.5 < v / unit { 1 } else { 0 };
            }
            code
        });
    }

    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (word, norm) = (codes.u32(d / 2), side.f32(0));
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = self.levels[(word >> (4 * i) as u32 & 15) as i32] * norm;
        }
        out
    }

    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::levels(0))
    }

    fn scale(&self, side: Packed<'_>, _kv_head: i32, _group: i32) -> f32 {
        side.f32(0)
    }

    fn level(&self, code: i32) -> f32 {
        self.levels[code]
    }
}

/// The Lloyd-Max levels of a normal distribution of variance 1 (J. Max, "Quantizing for minimum distortion", 1960),
/// rounded to f16, since decode multiplies them as such.
fn normal(_: &Turbo4, _: &Dims) -> Vec<f32> {
    let positive =
        [0.128_395, 0.388_048_3, 0.656_759_1, 0.942_340_5, 1.256_231_2, 1.618_046_4, 2.069_017_2, 2.732_589_6];
    let levels = positive.iter().rev().map(|x| -x).chain(positive);
    levels.map(bits::f16_round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};
    use attn::lang::VariantParams;

    #[test]
    fn a_row_by_hand() {
        let mut turbo4 = Turbo4::default();
        turbo4.bind(&Dims::default()).expect("16 levels");
        // its norm is 4, and each element one unit of it / sqrt(16)
        let row: Vec<f32> = (0..16).map(|d| if d % 4 == 0 { -1.0 } else { 1.0 }).collect();
        let (codes, side) = encoded(&turbo4, &row);
        // 1 lies between the midpoints 0.7995 and 1.0993, around level 11
        assert_eq!(codes, [0xb4, 0xbb].repeat(4));
        let norm = f32::from_le_bytes(side.try_into().expect("4 bytes"));
        assert!((norm - 1.0 / turbo4.levels[11]).abs() < 1e-6);
        let read = decoded(&turbo4, &codes, &norm.to_le_bytes(), 16);
        assert!(read.iter().zip(&row).all(|(a, b)| (a - b).abs() < 1e-6), "{read:?}");
        assert_eq!(encoded(&turbo4, &[0.0; 16]).1, [0; 4]);
        let (codes, side) = encoded(&turbo4, &[f32::NAN; 16]);
        assert!(decoded(&turbo4, &codes, &side, 16).iter().all(|x| x.is_nan()));
    }

    /// The levels are means of their cells but for what f16 rounds, and the error is that of the paper.
    #[test]
    fn the_levels_are_those_of_a_normal_distribution() {
        let levels = normal(&Turbo4::default(), &Dims::default());
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let midpoint = |i: usize| f64::from(levels[i] + levels[i + 1]) / 2.0;
        let mut error = 0.0;
        for (code, level) in levels.iter().map(|&x| f64::from(x)).enumerate() {
            let from = if code == 0 { -9.0 } else { midpoint(code - 1) };
            let to = if code == 15 { 9.0 } else { midpoint(code) };
            let step = (to - from) / 20_000.0;
            let points = (0..20_000).map(|n| from + (f64::from(n) + 0.5) * step);
            let (mut mass, mut moment) = (0.0, 0.0);
            for x in points {
                let p = density(x) * step;
                (mass, moment, error) = (mass + p, moment + p * x, error + p * (x - level).powi(2));
            }
            assert!((moment / mass - level).abs() < 2f64.powi(-11) * level.abs(), "level {code}");
        }
        assert!((error - 0.009_501).abs() < 1e-6, "{error}");
    }
}
