//! What a run should give: the f64 reference, and how far a kernel may be from it.
//!
//! Nearly nothing is rounded on the way to a log-sum-exp. Products of 16-bit and 8-bit elements are exact in f32, in
//! which they are accumulated, and weights are summed in f32 before they are rounded to 16 bits for P V. So the largest
//! error is a few ulps of f32, and one key too many or too few is seen: at 16,384 keys it moves a row by 6e-5.

use attn::{Error, Variant};
use attn_core::cpu::{self, OracleOut, RowRounding};
use attn_core::lang::{DeviceFn, Hook};
use attn_core::plan::WorkList;
use attn_core::spec::KernelKind;

use super::{Case, Distance, Inputs, TestError, Tolerance, counting};

/// The error where kernels round transformed rows, beside what the reference shows of it. An element near a tie is
/// rounded to the other neighbour, which moves a logit by `2^-10 sm_scale |q_d k_d|`: in 3,000 rows of N(0, 1) by at
/// most 2.3e-4. Kernels were within 3.5e-4 on an H200.
///
/// So a key of a transformed row that is missing is seen in a counting case, whose rows are 0, or where it has more
/// than this share of the row's weights. Where elements are computed as those of the reference
/// ([`Rounding::same_elements`]), one key of 16,384 is seen in any case.
const TIES: f64 = 5e-4;

/// The same where transformed rows are computed as the reference does, but for the last bit of f32: kernels fuse the
/// products of a rotation, and sum squares in f32. Of 865 emulated cases of decode nine have an element that is rounded
/// to the other neighbour, with errors up to 4.1e-5 in all.
const FEW_TIES: f64 = 4e-5;

/// The error where a hook calls `approx::tanh` on a GPU, one instruction with a relative error up to 2^-11. A logit of
/// 30 moves by up to 1.5e-2, in either direction; kernels were within 3.5e-4 of a log-sum-exp on an H200.
const APPROXIMATE_TANH: f64 = 1e-3;

/// The error where tensor-core kernels with this hook compute one exponential in eight by a polynomial: it is that of
/// all weights of a row with few keys. Emulated kernels, whose tanh is accurate, have no other.
const POLYNOMIAL_EXP: f64 = 9e-5;

/// The errors of an output and of a row with compute type e4m3, where the reference rounds queries and probabilities
/// alike. A probability near a tie is rounded to the other neighbour, which moves it by up to an eighth: of two keys of
/// one weight, the row by 6e-2.
const E4M3_TIES: [f64; 2] = [1e-2, 6e-2];

/// The same on a GPU, and that of a log-sum-exp for each standard deviation of the queries, and besides. Tensor cores
/// of Hopper add 32 products of e4m3 and a sum at a time, each cut to about 14 bits below the largest. Measured on an
/// H100 (1,337 cases): 2.5e-2, 1.1e-1, and log-sum-exps within 5e-3 at a deviation of 1, 3.6e-2 at 20, 2.6e-1 at 100.
const E4M3_SUMS: [f64; 4] = [3e-2, 1.3e-1, 3.5e-3, 5e-3];

/// What a kernel rounds besides the f32 that it computes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounding {
    /// The rounding of transformed rows.
    pub rows: RowRounding,
    /// The kernel, if it is one. Over a KV format prefill rounds what it decodes, and decode may multiply codes, which
    /// it does not round. In a mixed launch both happen.
    pub kernel: Option<KernelKind>,
    /// Whether approximate functions are instructions of a GPU. On the CPU and over f32 they are accurate.
    pub approximates: bool,
    /// Whether transformed rows have the elements of the reference up to the last bit of f32, so that hardly one is
    /// rounded otherwise: in emulated decode.
    pub same_elements: bool,
}

/// The reference of a case, and the tolerance of a result.
#[derive(Clone, Debug)]
pub struct Expected {
    exact: OracleOut,
    /// With transformed rows rounded as the kernel rounds them, where it does.
    rounded: Option<OracleOut>,
    /// Whether the kernel may multiply codes of a KV format, or round what they decode to.
    over_codes: bool,
    value_dim: usize,
    tolerance: Tolerance,
}

impl Expected {
    /// What a variant of a case should give. Output tensors of the variant are stored to; `fresh` gives the variant for
    /// each reference, of which the last is judged.
    pub(super) fn new(
        case: &Case,
        inputs: &Inputs,
        rounding: Rounding,
        fresh: &mut dyn FnMut() -> Result<Variant, TestError>,
    ) -> Result<Self, TestError> {
        let (variant, value_dim) = (fresh()?, inputs.o_shape()[2]);
        if case.counting {
            let exact = counting::expected(case, &variant, inputs)?;
            let tolerance = counting::tolerance(case, &variant)?.with_lse_ulps(&exact.lse);
            return Ok(Expected { exact, rounded: None, over_codes: false, value_dim, tolerance });
        }
        let exact = reference(case, &variant, inputs, RowRounding::None)?;
        let rewrites_scores = [Hook::QueryTransform, Hook::KeyTransform].into_iter().any(|hook| variant.has(hook));
        // what a KV format decodes is rounded too
        let rewrites = rewrites_scores || variant.has(Hook::ValueTransform) || variant.kv_formats().is_some();
        let rounded = match rounding.rows {
            RowRounding::None => None,
            RowRounding::E4m3Compute => Some(reference(case, &fresh()?, inputs, RowRounding::E4m3Compute)?),
            _ if !rewrites => None,
            rows => Some(reference(case, &fresh()?, inputs, rows)?),
        };
        let types = case.dtypes()?;
        let (mut tolerance, of_output) = (Tolerance::of(types.qo), Tolerance::of(types.output()));
        (tolerance.rel, tolerance.row) = (tolerance.rel.max(of_output.rel), tolerance.row.max(of_output.row));
        // a kernel that multiplies the codes of keys does not round them
        let rewrites_scores = rewrites_scores || variant.kv_formats().is_some();
        if let Some(rounded) = rounded.as_ref().filter(|_| rewrites_scores) {
            let ties = TIES.max(moved(&rounded.lse, &exact.lse));
            tolerance.lse += if rounding.same_elements && variant.kv_formats().is_none() { FEW_TIES } else { ties };
        }
        if rounding.rows == RowRounding::E4m3Compute {
            let deviation = f64::from(case.q_std.unwrap_or(1.0)).max(1.0);
            let [rel, row, lse] = match (rounding.approximates, E4M3_SUMS) {
                (true, [rel, row, of_deviation, least]) => [rel, row, least + of_deviation * deviation],
                (false, _) => [E4M3_TIES[0], E4M3_TIES[1], 0.0],
            };
            (tolerance.rel, tolerance.row) = (tolerance.rel.max(rel), tolerance.row.max(row));
            tolerance.lse += lse;
        }
        if calls_tanh(&variant) {
            tolerance.lse += match rounding {
                Rounding { approximates: true, .. } => APPROXIMATE_TANH,
                Rounding { rows: RowRounding::Elements, .. } => POLYNOMIAL_EXP,
                Rounding { .. } => 0.0,
            };
        }
        let over_codes = variant.kv_formats().is_some() && rounding.kernel != Some(KernelKind::Prefill);
        if let Some(rounded) = rounded.as_ref().filter(|_| over_codes && rounding.kernel == Some(KernelKind::Mixed)) {
            let o: Vec<f32> = rounded.o.iter().map(|&x| x as f32).collect();
            let apart = Distance::between(&o, &exact.o, value_dim, None);
            (tolerance.rel, tolerance.row) = (tolerance.rel + apart.rel_err, tolerance.row + apart.row_err);
        }
        let tolerance = tolerance.with_lse_ulps(&exact.lse);
        Ok(Expected { exact, rounded, over_codes, value_dim, tolerance })
    }

    /// What a variant that stores nothing should give.
    ///
    /// # Errors
    ///
    /// The case is invalid, or the variant does not fit it.
    pub fn of(case: &Case, variant: &Variant, inputs: &Inputs, rounding: Rounding) -> Result<Self, TestError> {
        Self::new(case, inputs, rounding, &mut || Ok(variant.clone()))
    }

    /// The tolerance: that of the dtype, and for log-sum-exps what the kernel rounds.
    #[must_use]
    pub fn tolerance(&self) -> Tolerance {
        self.tolerance
    }

    /// The distance of a result: `o` is (qo tokens, qo heads, value_dim), `lse` is (qo tokens, qo heads). Where a
    /// kernel may multiply codes of a KV format it is that to the nearer reference, with rounded rows or without.
    #[must_use]
    pub fn distance(&self, o: &[f32], lse: &[f32]) -> Distance {
        let Some(rounded) = &self.rounded else { return self.distance_to(&self.exact, o, lse) };
        let distance = self.distance_to(rounded, o, lse);
        if !self.over_codes || distance.within(&self.tolerance) {
            return distance;
        }
        let unrounded = self.distance_to(&self.exact, o, lse);
        let nearer = unrounded.share_of(&self.tolerance) < distance.share_of(&self.tolerance);
        if nearer { unrounded } else { distance }
    }

    /// The distance from the reference that rounds nothing, if the other one rounds.
    pub(super) fn unrounded(&self, o: &[f32], lse: &[f32]) -> Option<Distance> {
        self.rounded.as_ref().map(|_| self.distance_to(&self.exact, o, lse))
    }

    fn distance_to(&self, want: &OracleOut, o: &[f32], lse: &[f32]) -> Distance {
        Distance::to(want, o, lse, self.value_dim)
    }
}

/// The f64 reference.
pub(super) fn reference(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    rounding: RowRounding,
) -> Result<OracleOut, TestError> {
    let levels = inputs.levels();
    let layout = inputs.batch(&levels).validate()?;
    let bound = variant.bind(&case.dims()).map_err(Error::from)?;
    let work = WorkList::default(); // the oracle ignores the work list
    let oracle = if case.partial { cpu::oracle_partial } else { cpu::oracle_with };
    Ok(oracle(&inputs.problem(case, &bound, &layout, &work)?, rounding).map_err(Error::from)?)
}

/// Whether a hook, or a function that it calls, names `approx::tanh`.
fn calls_tanh(variant: &Variant) -> bool {
    const CALL: &str = "approx_tanh(";
    fn within(helper: &DeviceFn) -> bool {
        helper.cuda.contains(CALL) || helper.device_fns.iter().any(|helper| within(helper))
    }
    variant.parts().map(|part| part.desc()).any(|desc| {
        desc.hooks.iter().any(|hook| hook.cuda.contains(CALL)) || desc.device_fns.iter().any(|helper| within(helper))
    })
}

/// The largest distance by which rounding moves a log-sum-exp.
fn moved(rounded: &[f64], exact: &[f64]) -> f64 {
    let apart = rounded.iter().zip(exact).map(|(a, b)| (a - b).abs());
    // rows without keys have -inf in both
    apart.filter(|apart| apart.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
