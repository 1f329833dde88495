//! Least squares: from measured times to costs.

use super::batches::Work;

/// Nanoseconds of [`attn_kernels::cost::Costs`], before they are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fitted {
    pub(super) launch: f64,
    pub(super) item: f64,
    pub(super) block: f64,
    pub(super) first: f64,
    /// The largest error of a prediction, relative to the measured time.
    pub(super) off: f64,
}

/// Nanoseconds of merges, before they are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Merged {
    pub(super) merge_launch: f64,
    pub(super) merge: f64,
}

/// A linear equation: the factors of the coefficients, and the sum.
type Row<const N: usize> = ([f64; N], f64);

/// Fits costs to runs of known work and their nanoseconds. The fit minimises relative errors, so short and long runs
/// count alike. No cost is negative. `first` is 0 if no two tiles of any run read the same keys.
pub(super) fn work(runs: &[(Work, f64)]) -> Fitted {
    let shared = runs.iter().any(|(work, _)| work.tiles_of_a_request > 1);
    let row = |work: &Work| [1.0, work.tiles(), work.blocks(), if shared { work.first_blocks() } else { 0.0 }];
    let rows: Vec<Row<4>> = runs.iter().map(|(work, ns)| (row(work), *ns)).collect();
    let weighted: Vec<Row<4>> = rows.iter().map(|(row, ns)| (row.map(|x| x / ns.max(1.0)), 1.0)).collect();
    let costs = least_squares(&weighted);
    let predicted = |row: &[f64; 4]| row.iter().zip(costs).map(|(x, cost)| x * cost).sum::<f64>();
    let off = rows.iter().map(|(row, ns)| (predicted(row) / ns.max(1.0) - 1.0).abs()).fold(0.0, f64::max);
    let [launch, item, block, first] = costs;
    Fitted { launch, item, block, first, off }
}

/// Fits the cost of merges: to the steps of a merge, the partial states that are merged one after the other, and the
/// nanoseconds that the merge adds to a run.
pub(super) fn merge(runs: &[((u64, u64), f64)]) -> Merged {
    let rows: Vec<Row<2>> = runs.iter().map(|&((steps, states), ns)| ([steps as f64, states as f64], ns)).collect();
    let [merge_launch, merge] = least_squares(&rows);
    Merged { merge_launch, merge }
}

/// The least-squares coefficients under the constraint that none is negative: the column with the most negative
/// coefficient is dropped until none is left. Dropped columns and columns of zeros get 0.
fn least_squares<const N: usize>(rows: &[Row<N>]) -> [f64; N] {
    let mut kept: [bool; N] = std::array::from_fn(|i| rows.iter().any(|(row, _)| row[i] != 0.0));
    loop {
        let found = normal_equations(rows, kept);
        let worst = (0..N).filter(|&i| found[i] < 0.0).min_by(|&a, &b| found[a].total_cmp(&found[b]));
        match worst {
            Some(column) => kept[column] = false,
            None => return found,
        }
    }
}

/// The coefficients of the kept columns, by Gauss-Jordan elimination with pivoting. The others get 0, and so do
/// linearly dependent columns.
fn normal_equations<const N: usize>(rows: &[Row<N>], kept: [bool; N]) -> [f64; N] {
    // columns are scaled to a common norm: nanoseconds and counts differ by orders of magnitude
    let scale: [f64; N] = std::array::from_fn(|i| {
        let size = rows.iter().map(|(row, _)| row[i] * row[i]).sum::<f64>().sqrt();
        if kept[i] && size > 0.0 { size } else { 0.0 }
    });
    let column = |row: &[f64; N], i: usize| if scale[i] > 0.0 { row[i] / scale[i] } else { 0.0 };
    let sum = |term: &dyn Fn(&Row<N>) -> f64| rows.iter().map(term).sum::<f64>();
    // the normal equations with their right sides
    let mut equations: [Row<N>; N] = std::array::from_fn(|i| {
        let left = std::array::from_fn(|j| sum(&|(row, _)| column(row, i) * column(row, j)));
        (left, sum(&|(row, value)| column(row, i) * value))
    });
    let mut of_column = [None; N];
    let mut free = [true; N];
    for i in 0..N {
        let size = |equation: usize| f64::abs(equations[equation].0[i]);
        let best = (0..N).filter(|&j| free[j]).max_by(|&a, &b| size(a).total_cmp(&size(b)));
        let Some(chosen) = best.filter(|&j| size(j) > 1e-9) else { continue };
        free[chosen] = false;
        of_column[i] = Some(chosen);
        let (pivot, right) = equations[chosen];
        for (_, equation) in equations.iter_mut().enumerate().filter(|(j, _)| *j != chosen) {
            let factor = equation.0[i] / pivot[i];
            equation.0.iter_mut().zip(pivot).for_each(|(x, of_pivot)| *x -= factor * of_pivot);
            equation.1 -= factor * right;
        }
    }
    std::array::from_fn(|i| of_column[i].map_or(0.0, |j: usize| equations[j].1 / equations[j].0[i] / scale[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::batches::{ALONE, SHARED};

    const TRUE: Fitted = Fitted { launch: 5200.0, item: 940.0, block: 1810.0, first: 330.0, off: 0.0 };

    fn time(of: &Fitted, work: &Work) -> f64 {
        of.launch + work.tiles() * of.item + work.blocks() * of.block + work.first_blocks() * of.first
    }

    fn close(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() <= by * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn exact_times_give_exact_costs() {
        let runs: Vec<(Work, f64)> = ALONE.iter().chain(&SHARED).map(|work| (*work, time(&TRUE, work))).collect();
        let fitted = work(&runs);
        close(fitted.launch, TRUE.launch, 1e-6);
        close(fitted.item, TRUE.item, 1e-6);
        close(fitted.block, TRUE.block, 1e-6);
        close(fitted.first, TRUE.first, 1e-6);
        assert!(fitted.off < 1e-9);
    }

    #[test]
    fn without_shared_keys_the_block_cost_includes_the_first_read() {
        let runs: Vec<(Work, f64)> = ALONE.iter().map(|work| (*work, time(&TRUE, work))).collect();
        let fitted = work(&runs);
        close(fitted.block, TRUE.block + TRUE.first, 1e-6);
        assert_eq!(fitted.first, 0.0);
    }

    #[test]
    fn noise_of_two_per_cent_changes_costs_little_and_is_reported() {
        let noise = [0.02, -0.015, 0.01, -0.02, 0.015, -0.01, 0.005, -0.005, 0.02];
        let runs: Vec<(Work, f64)> = (ALONE.iter().chain(&SHARED).zip(noise))
            .map(|(work, noise)| (*work, time(&TRUE, work) * (1.0 + noise)))
            .collect();
        assert_eq!(runs.len(), ALONE.len() + SHARED.len(), "noise for each");
        let fitted = work(&runs);
        close(fitted.block + fitted.first, TRUE.block + TRUE.first, 0.06);
        close(fitted.launch, TRUE.launch, 0.25);
        assert!((0.005..0.04).contains(&fitted.off), "{fitted:?}");
    }

    #[test]
    fn no_cost_is_negative() {
        // blocks that cost more in long tiles would give a negative item cost
        let runs: Vec<(Work, f64)> =
            ALONE.iter().map(|work| (*work, 5000.0 + 2000.0 * work.blocks() - 300.0 * work.tiles())).collect();
        let fitted = work(&runs);
        assert_eq!(fitted.item, 0.0);
        assert!(fitted.launch >= 0.0 && fitted.block > 1500.0, "{fitted:?}");
        let merged = merge(&[4, 8, 16, 32].map(|states| ((1, states), 950.0 - 12.5 * states as f64)));
        assert_eq!(merged.merge, 0.0);
        close(merged.merge_launch, 762.5, 1e-9);
    }

    #[test]
    fn merge_cost_is_linear_in_steps_and_states() {
        let merged = merge(&[((1, 4), 1900.0), ((1, 8), 2300.0), ((1, 16), 3100.0), ((2, 12), 4200.0)]);
        close(merged.merge_launch, 1500.0, 1e-9);
        close(merged.merge, 100.0, 1e-9);
        assert_eq!(merge(&[]), Merged::default());
        // one run determines only the sum
        let one = merge(&[((1, 4), 1000.0)]);
        close(one.merge_launch + 4.0 * one.merge, 1000.0, 1e-9);
    }
}
