//! Bisection: where a condition that holds for small numbers ends.

/// The largest `n <= max` with `holds(n)`, where `holds(0)` is given, found by bisection.
pub(super) fn last_true(max: u64, holds: &dyn Fn(u64) -> bool) -> u64 {
    if max == 0 || holds(max) {
        return max;
    }
    bisect(0, max, holds)
}

/// [`last_true`] that searches around `guess` first. `is_last(n)` may prove that nothing above `n` holds. Returns the
/// number, and whether `is_last` proved it.
pub(super) fn last_true_near(
    max: u64,
    guess: u64,
    holds: &dyn Fn(u64) -> bool,
    is_last: &dyn Fn(u64) -> bool,
) -> (u64, bool) {
    let guess = guess.min(max);
    let mut step = 1;
    if guess == 0 || holds(guess) {
        if guess == max || is_last(guess) {
            return (guess, guess < max);
        }
        let mut yes = guess;
        while yes < max {
            let next = (yes + step).min(max);
            if !holds(next) {
                return (bisect(yes, next, holds), false);
            }
            (yes, step) = (next, step * 2);
        }
        return (max, false);
    }
    let mut no = guess;
    loop {
        let next = no.saturating_sub(step);
        if next == 0 || holds(next) {
            return (bisect(next, no, holds), false);
        }
        (no, step) = (next, step * 2);
    }
}

/// Bisects between `yes`, which holds, and `no`, which does not.
fn bisect(mut yes: u64, mut no: u64, holds: &dyn Fn(u64) -> bool) -> u64 {
    while no - yes > 1 {
        let mid = yes + (no - yes) / 2;
        if holds(mid) { yes = mid } else { no = mid }
    }
    yes
}
