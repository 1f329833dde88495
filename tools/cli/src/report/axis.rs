//! A logarithmic axis over whole decades.

use std::ops::RangeInclusive;

/// An axis from one power of ten to another, over pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogAxis {
    low: i32,
    high: i32,
    /// The pixels of the ends; a vertical axis begins at the larger one.
    from: f64,
    to: f64,
}

impl LogAxis {
    /// The least whole decades around the values above 0, one at least.
    pub(super) fn around(values: impl IntoIterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        let exponents = values.into_iter().filter(usable).map(f64::log10);
        let ends = exponents.fold(None, |ends: Option<(f64, f64)>, exponent| {
            Some(ends.map_or((exponent, exponent), |(low, high)| (low.min(exponent), high.max(exponent))))
        });
        let (low, high) = ends.unwrap_or((0.0, 1.0));
        let (low, high) = (low.floor() as i32, high.ceil() as i32);
        LogAxis { low, high: high.max(low + 1), from, to }
    }

    /// The pixel of a value; values outside are put at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The values of the ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        (10f64.powi(self.low), 10f64.powi(self.high))
    }

    /// The exponents of the decades.
    pub(super) fn decades(&self) -> RangeInclusive<i32> {
        self.low..=self.high
    }
}

/// A power of ten as a label.
pub(super) fn power_of_ten(exponent: i32) -> String {
    match exponent {
        0..=5 => 10u32.pow(exponent.unsigned_abs()).to_string(),
        -4..=-1 => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
        _ => format!("1e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{LogAxis, power_of_ten};

    #[test]
    fn an_axis_holds_its_values_in_whole_decades() {
        let axis = LogAxis::around([3.0, 250.0, 40.0], (100.0, 400.0));
        assert_eq!(axis.decades(), 0..=3);
        assert_eq!(axis.ends(), (1.0, 1000.0));
        assert_eq!([1.0, 10.0, 1000.0].map(|value| axis.at(value).round()), [100.0, 200.0, 400.0]);
        assert!((axis.at(10f64.powf(1.5)) - 250.0).abs() < 1e-9, "half a decade is half a step");
        assert_eq!([axis.at(0.01), axis.at(1e9), axis.at(0.0)], [100.0, 400.0, 100.0], "outside");
        // upwards
        let axis = LogAxis::around([0.002, 0.5], (300.0, 0.0));
        assert_eq!([0.001, 0.01, 1.0].map(|value| axis.at(value).round()), [300.0, 200.0, 0.0]);
    }

    #[test]
    fn an_axis_without_an_extent_has_one_decade() {
        let pixels = (0.0, 1.0);
        assert_eq!(LogAxis::around([10.0], pixels).decades(), 1..=2);
        assert_eq!(LogAxis::around([7.0, 8.0], pixels).decades(), 0..=1);
        assert_eq!(LogAxis::around([], pixels).decades(), 0..=1);
        assert_eq!(LogAxis::around([0.0, -1.0, f64::NAN, f64::INFINITY, 0.5], pixels).decades(), -1..=0);
    }

    #[test]
    fn powers_of_ten_are_written_out_while_they_are_short() {
        let labels = [-5, -4, -1, 0, 3, 5, 6].map(power_of_ten);
        assert_eq!(labels, ["1e-5", "0.0001", "0.1", "1", "1000", "100000", "1e6"]);
    }
}
