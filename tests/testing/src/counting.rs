//! Cases that count: queries are 0 and values 1, so every visible key has the weight 1.

use attn::{Error, Heads, Variant};
use attn_core::batch::Layout;
use attn_core::cpu::OracleOut;
use attn_core::lang::{Hook, LogitIndex, RowIndex};

use super::{Case, Inputs, TestError, Tolerance};

/// Hooks that change a weight of 1, an output of 1, or the number of keys in a log-sum-exp.
const CHANGE: [Hook; 5] =
    [Hook::Weight, Hook::Denominator, Hook::SinkLogit, Hook::ValueTransform, Hook::OutputTransform];

/// Relative error of an output: two roundings in f32. In 16 bits it is then 1 itself.
const EXACT: f64 = 1.0 / (1 << 22) as f64;

/// Whether a case of this variant may count: logits of 0 stay 0, and nothing else enters a row.
pub(crate) fn counts(variant: &Variant) -> bool {
    let keeps_zero = |name| name == "soft_cap";
    !CHANGE.into_iter().any(|hook| variant.has(hook))
        && variant.parts().all(|part| !part.desc().has(Hook::LogitsTransform) || keeps_zero(part.desc().name))
}

/// What a run of a counting case gives, from the mask alone: not from the reference, its classes or its plan.
pub(super) fn expected(case: &Case, variant: &Variant, inputs: &Inputs) -> Result<OracleOut, TestError> {
    let no = |why: &str| TestError::Field { field: "counting", why: why.to_owned() };
    if !counts(variant) {
        return Err(no("the variant changes logits of 0, values of 1, or the sum of the weights"));
    }
    let levels = inputs.levels();
    let layout = inputs.batch(&levels).validate()?;
    let bound = variant.bind(&case.dims()).map_err(Error::from)?;
    let (heads, value_dim) = (case.heads(), inputs.o_shape()[2]);
    let mut out = OracleOut { o: Vec::new(), lse: Vec::new(), condition: Vec::new(), cancellation: Vec::new() };
    for keys in visible(&bound, &layout, heads) {
        let head = out.lse.len() % heads.qo as usize / heads.group() as usize;
        let scale = inputs.v_scale.all * inputs.v_scale.heads.as_ref().map_or(1.0, |heads| heads[head]);
        out.o.extend(std::iter::repeat_n(if keys == 0 { 0.0 } else { f64::from(scale) }, value_dim));
        out.lse.push((keys as f64).ln());
        out.condition.push(1.0);
        out.cancellation.push(1.0);
    }
    Ok(out)
}

/// The tolerance of a counting case, without the ulps of its log-sum-exps.
pub(super) fn tolerance(case: &Case, variant: &Variant) -> Result<Tolerance, TestError> {
    let of_dtype = Tolerance::of(case.dtypes()?.qo);
    // relative to a maximum that is known beforehand, equal weights are rounded alike for P V, and not in their sum
    let rounded = variant.has(Hook::LogitsTransform) || case.kv_scale.is_some() || case.kv_scale_per_head;
    Ok(if rounded { of_dtype } else { Tolerance { rel: EXACT, row: EXACT, ..of_dtype } })
}

/// The number of visible keys of each (query token, query head), by the mask of every key.
fn visible(variant: &Variant, layout: &Layout, heads: Heads) -> Vec<u64> {
    let branches = variant.branches();
    let mut counts = Vec::new();
    for request in 0..layout.batch() {
        for qo_row in 0..layout.qo_len(request) {
            for head in 0..heads.qo as usize {
                let row = layout.row(heads, request, qo_row, head);
                counts.push(branches.iter().map(|branch| row_keys(branch, layout, request, row)).sum());
            }
        }
    }
    counts
}

/// The number of keys of a row under one branch.
fn row_keys(variant: &Variant, layout: &Layout, request: usize, row: RowIndex) -> u64 {
    let kv_len = layout.kv_len(request);
    let kept = |begin: usize, end: usize, kv_slot: i32| {
        let mut keep = vec![true; end.min(kv_len).saturating_sub(begin)];
        if !keep.is_empty() {
            let kv_token = layout.kv_indptr()[request] + begin as i32;
            variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: begin as i32, kv_token, kv_slot });
        }
        keep.into_iter().filter(|kept| *kept).count() as u64
    };
    match variant.kv_list_sizes() {
        None => kept(0, kv_len, 0),
        Some((size, _)) => {
            let block = |n| variant.kv_list_block(row, n) as usize * size as usize;
            (0..variant.kv_list_len(row)).map(|n| kept(block(n), block(n) + size as usize, n)).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::counts;
    use crate::{Case, Lens, check};
    use attn::{Engine, Variant};

    fn counting(variant: &str) -> Case {
        let lens = |lens: &[u32]| Lens::List(lens.to_vec());
        Case { counting: true, qo_lens: lens(&[5, 1, 3]), kv_lens: lens(&[300, 0, 3]), ..Case::new(variant) }
    }

    #[test]
    fn a_log_sum_exp_is_the_logarithm_of_a_count() {
        for variant in ["full", "causal + sliding_window(window=100)", "causal + rope", "qk_norm", "soft_cap(cap=30)"] {
            for dtype in ["f32", "bf16"] {
                let case = Case { dtype: dtype.to_owned(), ..counting(variant) };
                let result = check(&case, &Engine::cpu()).expect("it runs");
                assert!(result.passed, "{variant} {dtype}: {}", result.why());
                assert!(result.tolerance.lse < 1.6e-5, "{variant}: {:?}", result.tolerance);
            }
        }
    }

    #[test]
    fn what_does_not_count_is_refused() {
        for variant in ["alibi", "sink(logits=[0, 0, 0, 0])", "value_norm", "sigmoid", "output_norm"] {
            assert!(!counts(&Variant::parse(variant).expect(variant)), "{variant}");
            let error = check(&counting(variant), &Engine::cpu()).expect_err(variant).to_string();
            assert!(error.contains("counting"), "{error}");
        }
    }
}
