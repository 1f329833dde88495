//! Mean and percentiles of a set of measurements.

use serde::Serialize;

/// What a table shows of a set of measurements, in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Measurements.
    pub count: usize,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// The summary of `values`; `None` if there are none, or if one is not a number.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        Some(Summary {
            count: values.len(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p50: percentile(&values, 0.50),
            p99: percentile(&values, 0.99),
            max: values[values.len() - 1],
        })
    }
}

/// The quantile `q` in 0..=1 of ascending `values`, at least one: linear between the two nearest ranks, as numpy's
/// default and so as vLLM's benchmark.
fn percentile(values: &[f64], q: f64) -> f64 {
    let rank = q * (values.len() - 1) as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    values[below] + (values[above] - values[below]) * (rank - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_numpy() {
        // numpy.percentile(range(1, 102), ..) and numpy.percentile([3, 1, 2, 10], ..)
        let summary = Summary::of((1..=101).rev().map(f64::from).collect()).expect("values");
        assert_eq!(
            (summary.count, summary.mean, summary.p50, summary.p99, summary.max),
            (101, 51.0, 51.0, 100.0, 101.0)
        );
        let summary = Summary::of(vec![3.0, 1.0, 2.0, 10.0]).expect("values");
        assert_eq!((summary.mean, summary.p50, summary.max), (4.0, 2.5, 10.0));
        assert!((summary.p99 - 9.79).abs() < 1e-12, "{}", summary.p99);
    }

    #[test]
    fn one_value_is_every_percentile() {
        let summary = Summary::of(vec![7.0]).expect("a value");
        assert_eq!((summary.mean, summary.p50, summary.p99, summary.max), (7.0, 7.0, 7.0, 7.0));
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(vec![]), None);
        assert_eq!(Summary::of(vec![1.0, f64::NAN]), None);
    }
}
