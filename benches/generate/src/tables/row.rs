//! A row of a table.

use serde::Serialize;

/// How far the logits of both sides are apart in the last step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The largest difference, over the root mean square of all logits.
    pub difference: f64,
    /// The part of the rows whose largest logit is that of the same token.
    pub same_tokens: f64,
}

impl Agreement {
    /// Compares rows of logits.
    pub fn of(a: &[f32], b: &[f32], vocab: usize) -> Self {
        let square = |x: &f32| f64::from(*x) * f64::from(*x);
        let scale = (a.iter().map(square).sum::<f64>() / a.len() as f64).sqrt();
        let apart = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
        // NaN is the largest
        let most = |x: f64, y: f64| if y.is_nan() || y > x { y } else { x };
        let largest = |row: &[f32]| (0..row.len()).max_by(|&i, &j| row[i].total_cmp(&row[j]));
        let rows = a.chunks(vocab).zip(b.chunks(vocab));
        let same = rows.clone().filter(|(a, b)| largest(a) == largest(b)).count();
        Agreement {
            difference: a.iter().zip(b).map(apart).fold(0.0, most) / scale,
            same_tokens: same as f64 / rows.len() as f64,
        }
    }
}

/// Two sides of a case: with a technique, and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The table.
    pub table: &'static str,
    /// The model, the batch and what else there is to know.
    pub case: String,
    /// The names of both sides.
    pub sides: [&'static str; 2],
    /// Medians of a step, in microseconds.
    pub us: [f64; 2],
    /// How many times as fast the first side is: the median over rounds.
    pub gain: f64,
    /// The least time of each side, in microseconds on an H200.
    pub floor_us: [f64; 2],
    /// The gain of the paper, where it has one.
    pub paper: Option<f64>,
    /// How far the sides are apart.
    pub agreement: Agreement,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [on, off] = self.us;
        let paper = self.paper.map_or(String::new(), |paper| format!(", paper {paper:.2}"));
        let Agreement { difference, same_tokens } = self.agreement;
        write!(
            f,
            "{:<44} {:>11} {on:>9.1} us {:>11} {off:>9.1} us  gain {:.3} (floor {:.0}, {:.0} us: {:.2}{paper})  \
             apart {difference:.1e}, same {:.0} %",
            self.case,
            self.sides[0],
            self.sides[1],
            self.gain,
            self.floor_us[0],
            self.floor_us[1],
            self.floor_us[1] / self.floor_us[0],
            100.0 * same_tokens,
        )
    }
}
