use attn::lang::{AttentionVariant, Dims, LogitIndex, Tensor2};
use attn::{VariantParams, attention_variant};

/// T5 bias: a learnt number for each head and bucket of distances is added to logits.
///
/// `logit + weights[bucket(kv_pos - qo_pos), qo_head]` (arXiv 1910.10683; T5 itself runs with `sm_scale = 1`).
///
/// A bidirectional bias gives each direction `n = buckets / 2` buckets. A causal one gives all `n = buckets` to keys
/// before the query, and the first of them to keys after it. The first `e = n / 2` buckets hold one distance each; a
/// distance `d >= e` is in bucket `min(e + floor(ln(d / e) / ln(max_distance / e) * (n - e)), n - 1)`.
///
/// The host computes the logarithms once. The kernel reads `table`, which has a column for each distance up to
/// `max_distance`; all larger distances are in the last bucket.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct T5Bias {
    /// Number of buckets: the model's `relative_attention_num_buckets`.
    #[default(32)]
    #[require(buckets >= 4 && buckets % 2 == 0 && buckets < 1 << 16)]
    pub buckets: i32,
    /// Distance at which the last bucket begins: the model's `relative_attention_max_distance`.
    #[default(128)]
    #[require(max_distance > buckets / 2 && max_distance < 1 << 24)]
    pub max_distance: i32,
    /// Whether keys after the query have buckets of their own: true in encoders, false in decoders.
    #[default(true)]
    pub bidirectional: bool,
    /// What each bucket adds, in natural-log units, as checkpoints hold it.
    #[shape(buckets, qo_heads)]
    #[require(weights.as_slice().iter().all(|x| x.is_finite()))]
    pub weights: Tensor2<f32>,
    /// `weights` by head and distance, from `-max_distance` on. If given, `weights` has no effect.
    #[shape(qo_heads, 2 * max_distance + 1)]
    #[default(by_distance)]
    #[require(table.as_slice().iter().all(|x| x.is_finite()))]
    pub table: Tensor2<f32>,
}

#[attention_variant(name = "t5_bias")]
impl AttentionVariant for T5Bias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let distance = (at.kv_pos - at.qo_pos).clamp(-self.max_distance, self.max_distance);
        logit + self.table[[at.qo_head, distance + self.max_distance]]
    }
}

/// The weights of each head, spread out over distances.
fn by_distance(bias: &T5Bias, dims: &Dims) -> Vec<f32> {
    let heads = i32::try_from(dims.qo_heads.unwrap_or(0)).unwrap_or(0);
    let distances = || -bias.max_distance..=bias.max_distance;
    (0..heads).flat_map(|head| distances().map(move |d| bias.weights[[bucket(bias, d), head]])).collect()
}

/// The bucket of `kv_pos - qo_pos`.
fn bucket(bias: &T5Bias, distance: i32) -> i32 {
    let (first, buckets, distance) = match bias.bidirectional {
        true => (if distance > 0 { bias.buckets / 2 } else { 0 }, bias.buckets / 2, distance.abs()),
        false => (0, bias.buckets, (-distance).max(0)),
    };
    let exact = buckets / 2;
    if distance < exact {
        return first + distance;
    }
    let ratio = |x: i32| (f64::from(x) / f64::from(exact)).ln();
    let rest = ratio(distance) / ratio(bias.max_distance) * f64::from(buckets - exact);
    // rounding must not move the first distance of a bucket into the bucket below
    first + (exact + (rest + 1e-9) as i32).min(buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::VariantParams;

    fn bias(bidirectional: bool) -> T5Bias {
        let weights = Tensor2::new((0..64).map(|x| x as f32).collect(), [32, 2]).expect("64 values");
        let mut bias = T5Bias { buckets: 32, max_distance: 128, bidirectional, weights, table: Tensor2::unset() };
        bias.bind(&Dims { qo_heads: Some(2), ..Dims::default() }).expect("the table has a default");
        bias
    }

    /// The distances at which the buckets of the published models begin.
    #[test]
    fn buckets_begin_where_the_paper_has_them() {
        let encoder = bias(true);
        let starts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
        for (i, (start, next)) in starts.iter().zip(starts[1..].iter().chain(&[1000])).enumerate() {
            for distance in *start..*next {
                assert_eq!(bucket(&encoder, -distance), i as i32, "{distance} back");
                let ahead = if distance == 0 { 0 } else { i as i32 + 16 };
                assert_eq!(bucket(&encoder, distance), ahead, "{distance} ahead");
            }
        }
        let decoder = bias(false);
        assert_eq!(
            [5, 1, 0, -1, -15, -16, -18, -19, -113, -1000].map(|d| bucket(&decoder, d)),
            [0, 0, 0, 1, 15, 16, 16, 17, 31, 31]
        );
    }

    #[test]
    fn the_formula() {
        for bias in [bias(true), bias(false)] {
            for (qo_pos, kv_pos) in [(0, 0), (50, 3), (3, 50), (4000, 1), (1, 4000), (128, 0), (0, 128)] {
                let mut at = crate::testing::at(qo_pos, kv_pos);
                at.row.qo_head = 1;
                let want = 0.25 + bias.weights[[bucket(&bias, kv_pos - qo_pos), 1]];
                assert_eq!(bias.logits_transform(0.25, at), want);
            }
        }
    }
}
