//! Judges the result of emulated kernels, as `attn check` judges that of a GPU.

use attn_core::{cpu::RowRounding, expr::Variant, spec::KernelKind};
use attn_testing::{Case, Distance, Expected, Inputs, Rounding, Tolerance};

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
        rows: RowRounding,
        (o, lse): (&[f32], &[f32]),
    ) -> Judged {
        // the host has no approximate functions
        let kernel = case.kernel.parse().ok();
        let same_elements = kernel == Some(KernelKind::Decode);
        let rounding = Rounding { rows, kernel, approximates: false, same_elements };
        let expected = Expected::of(case, variant, inputs, rounding).expect("a sound problem");
        Judged { distance: expected.distance(o, lse), tolerance: expected.tolerance() }
    }

    /// Whether the result is within its tolerance.
    pub(super) fn passes(&self) -> bool {
        self.distance.within(&self.tolerance)
    }
}
