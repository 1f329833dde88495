//! Judges the result of emulated kernels, as `attn check` judges that of a GPU.

use attn::{
    batch::Layout,
    cpu::{OracleOut, Problem, RowRounding, oracle_with},
    expr::Variant,
    lang::Hook,
    plan::WorkList,
};
use attn_testing::{Case, Distance, Inputs, Tolerance};

/// The tolerance of a log-sum-exp, in ulps of the largest one.
const LSE_UNITS: f64 = 6.0;

/// A result beside the f64 reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    /// The distance from the reference with the kernel's rounding of transformed rows.
    distance: Distance,
    /// The tolerance.
    tolerance: Tolerance,
}

impl Judged {
    /// Compares outputs and log-sum-exps with the reference.
    pub(super) fn of(
        case: &Case,
        variant: &Variant,
        inputs: &Inputs,
        layout: &Layout,
        rounding: RowRounding,
        (o, lse): (&[f32], &[f32]),
    ) -> Judged {
        let heads = case.heads();
        let problem = Problem {
            variant,
            heads,
            head_dim_vo: case.head_dim_vo,
            sm_scale: case.sm_scale.unwrap_or_else(|| heads.default_sm_scale()),
            layout,
            work: &WorkList::default(), // the reference ignores it
            q: inputs.q().expect("queries"),
            kv: inputs.kv().expect("keys and values"),
        };
        let reference = |rounding| oracle_with(&problem, rounding).expect("a sound problem");
        let rewrites = [Hook::QueryTransform, Hook::KeyTransform, Hook::ValueTransform].map(|hook| variant.has(hook));
        let want = reference(if rewrites.contains(&true) { rounding } else { RowRounding::None });
        let mut tolerance = Tolerance::of(case.dtypes().expect("known types").qo);
        if variant.has(Hook::KeyTransform) {
            tolerance.lse = tolerance.lse.max(moved(&want, &reference(RowRounding::None)));
        }
        let finite = want.lse.iter().filter(|lse| lse.is_finite());
        let largest = finite.fold(0.0f64, |most, lse| most.max(lse.abs()));
        tolerance.lse = tolerance.lse.max(LSE_UNITS * f64::from(f32::EPSILON) * largest);
        let distance = Distance::between(o, &want.o, inputs.o_shape()[2], Some((lse, &want.lse)));
        Judged { distance, tolerance }
    }

    /// Whether the result is within its tolerance.
    pub(super) fn passes(&self) -> bool {
        self.distance.within(&self.tolerance)
    }
}

/// The largest distance by which rounding moves a log-sum-exp. Rows without keys have -inf in both.
fn moved(rounded: &OracleOut, exact: &OracleOut) -> f64 {
    let apart = rounded.lse.iter().zip(&exact.lse).map(|(a, b)| (a - b).abs());
    apart.filter(|apart| apart.is_finite()).fold(0.0, f64::max)
}
