//! The inputs of a hook: parameters, a tensor, coordinates.

use rand::{Rng, rngs::SmallRng};

/// The inputs of a hook.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) a: i32,
    pub(crate) n: i32,
    pub(crate) u: u32,
    pub(crate) flag: bool,
    pub(crate) x: f32,
    pub(crate) table: [i32; 4],
    pub(crate) logit: f32,
    /// `qo_pos`, `qo_head`, `kv_pos`.
    pub(crate) at: [i32; 3],
}

impl Inputs {
    pub(crate) fn random(rng: &mut SmallRng) -> Inputs {
        let int = |rng: &mut SmallRng| match rng.random_range(0..4) {
            0 => [0, -1, i32::MIN, i32::MAX][rng.random_range(0..4)],
            1 => rng.random_range(-9..40),
            _ => rng.random(),
        };
        let float = |rng: &mut SmallRng| match rng.random_range(0..8) {
            0 => [f32::NAN, f32::INFINITY, -0.0, 0.5, -4e9][rng.random_range(0..5)],
            // no signalling NaNs: `fminf` of C libraries treats them differently
            1 => Some(f32::from_bits(rng.random())).filter(|x| !x.is_nan()).unwrap_or(f32::NAN),
            _ => rng.random_range(-300.0..300.0),
        };
        Inputs {
            a: int(rng),
            n: int(rng),
            u: int(rng) as u32,
            flag: rng.random(),
            x: float(rng),
            table: [int(rng), int(rng), int(rng), int(rng)],
            logit: float(rng),
            at: [rng.random_range(-20..200), rng.random_range(0..8), rng.random_range(0..1 << 20)],
        }
    }

    /// `LogitIndex` with its C layout.
    pub(crate) fn words(&self) -> [i32; 10] {
        let [qo_pos, qo_head, kv_pos] = self.at;
        [0, 0, qo_pos, 0, qo_head, 0, 0, 0, kv_pos, 0]
    }
}
