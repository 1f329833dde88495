use attn::lang::{AttentionVariant, Dims, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// ALiBi: logits get a penalty that grows linearly with the distance of the key.
///
/// `logit + slope[qo_head] * (kv_pos - qo_pos)` (arXiv 2108.12409). The default slopes are the paper's. For `n` heads,
/// `n` a power of two, they are `2^(-8 (h + 1) / n)`. For other `n` they are those of the power of two below, then
/// every other one of the power of two above, as in the authors' code and in BLOOM.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Alibi {
    /// Penalty per position, for each query head, in natural-log units.
    #[shape(qo_heads)]
    #[default(paper_slopes)]
    #[require(slopes.as_slice().iter().all(|x| x.is_finite()))]
    pub slopes: Tensor1<f32>,
}

#[attention_variant(name = "alibi")]
impl AttentionVariant for Alibi {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.slopes[at.qo_head] * (at.kv_pos - at.qo_pos) as f32
    }
}

/// The paper's slopes for the number of query heads.
fn paper_slopes(_: &Alibi, dims: &Dims) -> Vec<f32> {
    let heads = dims.qo_heads.unwrap_or(0).max(0) as u64;
    let below = if heads == 0 { 0 } else { 1 << heads.ilog2() };
    // slope number h (from 1) of a geometric series for n heads
    let slope = |h: u64, n: u64| (-8.0 * h as f64 / n as f64).exp2() as f32;
    let first = (1..=below).map(|h| slope(h, below));
    let rest = (0..heads - below).map(|i| slope(2 * i + 1, 2 * below));
    first.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, VariantParams};

    fn bound(heads: i64) -> Alibi {
        let mut alibi = Alibi::default();
        alibi.bind(&Dims { qo_heads: Some(heads), ..Dims::default() }).expect("slopes have a default");
        alibi
    }

    #[test]
    fn default_slopes_are_the_papers() {
        let halves: Vec<f32> = (1..=8).map(|h| 0.5f32.powi(h)).collect();
        assert_eq!(bound(8).slopes.as_slice(), halves);
        // 12 heads: the eight above, then 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5
        let more = [0.5f64, 1.5, 2.5, 3.5].map(|x| (-x).exp2() as f32);
        assert_eq!(bound(12).slopes.as_slice(), [halves.as_slice(), &more].concat());
        assert_eq!(bound(1).slopes.as_slice(), [(-8f32).exp2()]);
        assert_eq!(bound(3).slopes.len(), 3);
    }

    #[test]
    fn the_formula() {
        let mut at = crate::testing::at(10, 4);
        at.row.qo_head = 1;
        assert_eq!(bound(8).logits_transform(2.0, at), 2.0 + 0.25 * -6.0);
    }

    #[test]
    fn slopes_have_one_value_per_head() {
        let mut alibi = Alibi { slopes: Tensor1::from([0.5, 0.25]) };
        let error = alibi.bind(&Dims { qo_heads: Some(3), ..Dims::default() }).expect_err("two slopes");
        assert!(matches!(&error, BindError::Shape { want, got, .. } if *want == [3] && *got == [2]), "{error}");
    }

    #[test]
    fn nan_slopes_are_refused() {
        let mut alibi = Alibi { slopes: Tensor1::from([0.5, f32::NAN]) };
        let error = alibi.bind(&Dims::default()).expect_err("NaN");
        assert!(matches!(error, BindError::Require { .. }), "{error}");
    }
}
