//! Two sides in turns.

use std::time::Duration;

use generate::Error;

use super::{Agreement, Floor, Row, TableModel, side::Side};
use crate::median;

/// How often the sides alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Rounds; in each one both sides have a turn, in changing order.
    pub rounds: usize,
    /// Steps of a turn.
    pub steps: usize,
}

impl Turns {
    /// Steps that a side makes in all, those before the clock starts included.
    pub(super) fn all_steps(&self) -> usize {
        WARM_UP + self.rounds * self.steps
    }
}

/// What a row says beside its figures.
pub(super) struct Case {
    pub(super) table: &'static str,
    pub(super) name: String,
    pub(super) sides: [&'static str; 2],
    pub(super) floors: [Floor; 2],
    pub(super) paper: Option<f64>,
}

/// A step of a side, which returns what it took.
pub(super) type SideStep<'a> = dyn Fn(&mut Side) -> Result<Duration, Error> + 'a;

/// Steps before the clock starts: kernels are loaded, and graphs captured.
const WARM_UP: usize = 3;

impl Case {
    /// Times steps of decoding of both sides in turns.
    pub(super) fn decode(self, model: &TableModel, sides: &mut [Side; 2], turns: Turns) -> Result<Row, Error> {
        self.measure(model, sides, turns, [&Side::decode; 2])
    }

    /// Times any steps of both sides in turns.
    pub(super) fn measure(
        self,
        model: &TableModel,
        sides: &mut [Side; 2],
        turns: Turns,
        steps: [&SideStep<'_>; 2],
    ) -> Result<Row, Error> {
        for (side, step) in sides.iter_mut().zip(steps) {
            for _ in 0..WARM_UP {
                step(side)?;
            }
        }
        let (mut times, mut gains) = ([Vec::new(), Vec::new()], Vec::new());
        for round in 0..turns.rounds {
            let mut medians = [0.0; 2];
            for side in [round % 2, 1 - round % 2] {
                let own: Vec<f64> = (0..turns.steps)
                    .map(|_| Ok(steps[side](&mut sides[side])?.as_secs_f64()))
                    .collect::<Result<_, Error>>()?;
                medians[side] = median(&own);
                times[side].extend(own);
            }
            gains.push(medians[1] / medians[0]);
        }
        let [on, off] = sides;
        let agreement = Agreement::of(&on.logits()?, &off.logits()?, model.config.vocab);
        Ok(Row {
            table: self.table,
            case: self.name,
            sides: self.sides,
            us: times.map(|times| rounded(1e6 * median(&times), 1)),
            gain: rounded(median(&gains), 4),
            floor_us: self.floors.map(|floor| rounded(floor.us(model), 1)),
            paper: self.paper,
            agreement,
        })
    }
}

fn rounded(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}
