//! Small floating-point formats in f64: every code's value, and the code of a number by a search among all of them.

/// A floating-point format of at most 16 bits, by codes of magnitudes.
pub(super) struct SmallFloat {
    /// Bits of the mantissa.
    mantissa: u32,
    bias: i32,
    /// The bit of the sign.
    sign: u32,
    /// The code of the largest finite magnitude.
    last: u32,
    infinity: Option<u32>,
    nan: u32,
}

pub(super) const F16: SmallFloat =
    SmallFloat { mantissa: 10, bias: 15, sign: 15, last: 0x7bff, infinity: Some(0x7c00), nan: 0x7e00 };
pub(super) const BF16: SmallFloat =
    SmallFloat { mantissa: 7, bias: 127, sign: 15, last: 0x7f7f, infinity: Some(0x7f80), nan: 0x7fc0 };
pub(super) const E4M3: SmallFloat = SmallFloat { mantissa: 3, bias: 7, sign: 7, last: 0x7e, infinity: None, nan: 0x7f };
/// A NaN becomes the largest magnitude.
pub(super) const E2M1: SmallFloat = SmallFloat { mantissa: 1, bias: 1, sign: 3, last: 7, infinity: None, nan: 7 };

impl SmallFloat {
    fn magnitude(&self, code: u32) -> f64 {
        let (exponent, mantissa) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        let unit = |exponent: i32| 2f64.powi(exponent - self.bias - self.mantissa as i32);
        match exponent {
            0 => f64::from(mantissa) * unit(1),
            e => f64::from(mantissa + (1 << self.mantissa)) * unit(e as i32),
        }
    }

    pub(super) fn value(&self, code: u32) -> f64 {
        let size = code & ((1 << self.sign) - 1);
        let magnitude = match size {
            s if s <= self.last => self.magnitude(s),
            s if Some(s) == self.infinity => f64::INFINITY,
            _ => f64::NAN,
        };
        if code >> self.sign & 1 == 1 { -magnitude } else { magnitude }
    }

    /// The code of the nearest value by a search in all of them; of two as near the even one.
    pub(super) fn encode(&self, x: f32) -> u32 {
        if x.is_nan() {
            return self.nan;
        }
        let size = f64::from(x.abs());
        // the first code that is not smaller, in steps that halve the range
        let (mut low, mut high) = (0, self.last + 1);
        while low < high {
            let middle = (low + high) / 2;
            (low, high) = if self.magnitude(middle) < size { (middle + 1, high) } else { (low, middle) };
        }
        // beyond the last the next step of the same size decides
        let above = low;
        let (distance_above, distance_below) =
            (self.magnitude(above) - size, if above == 0 { f64::INFINITY } else { size - self.magnitude(above - 1) });
        let nearest = match distance_above.total_cmp(&distance_below) {
            std::cmp::Ordering::Less => above,
            std::cmp::Ordering::Greater => above - 1,
            std::cmp::Ordering::Equal => above - above % 2,
        };
        let nearest = if size.is_infinite() { self.last + 1 } else { nearest };
        let code = if nearest > self.last { self.infinity.unwrap_or(self.last) } else { nearest };
        code | u32::from(x.is_sign_negative()) << self.sign
    }
}
