//! Reproducible random numbers: the data of a case depends on its seed alone.

use half::{bf16, f16};

use attn::lang::{F8E4M3, F8E5M2};
use attn::tensor::Element;

/// A counter-based generator (SplitMix64): cheap, and a stream per tensor.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The stream `stream` of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Random { state: seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) };
        random.next_u64();
        random
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; `n` is at least 1.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// One standard normal value.
    pub(super) fn normal(&mut self) -> f32 {
        quantile((self.next_u64() >> 48) as u16) as f32
    }

    /// A permutation of `0..n`.
    pub(super) fn permutation(&mut self, n: u32) -> Vec<i32> {
        let mut order: Vec<i32> = (0..n as i32).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// An element type of a case's tensors.
pub(super) trait Value: Copy {
    fn of(x: f64) -> Self;
    const NAN: Self;
}

impl Value for f32 {
    fn of(x: f64) -> Self {
        x as f32
    }
    const NAN: Self = f32::NAN;
}
impl Value for f16 {
    fn of(x: f64) -> Self {
        f16::from_f64(x)
    }
    const NAN: Self = f16::NAN;
}
impl Value for bf16 {
    fn of(x: f64) -> Self {
        bf16::from_f64(x)
    }
    const NAN: Self = bf16::NAN;
}
impl Value for F8E4M3 {
    fn of(x: f64) -> Self {
        Element::from_f32(x as f32)
    }
    const NAN: Self = F8E4M3(0x7f);
}
impl Value for F8E5M2 {
    fn of(x: f64) -> Self {
        Element::from_f32(x as f32)
    }
    const NAN: Self = F8E5M2(0x7f);
}

/// Fills tensors with values of N(0, std²), rounded to the element: each value is one of 65536 quantiles.
pub(super) struct Normal<T> {
    table: Vec<T>,
}

impl<T: Value> Normal<T> {
    pub(super) fn new(std: f32) -> Self {
        Normal { table: (0..=u16::MAX).map(|u| T::of(quantile(u) * f64::from(std))).collect() }
    }

    pub(super) fn fill(&self, out: &mut [T], random: &mut Random) {
        for four in out.chunks_mut(4) {
            let bits = random.next_u64();
            for (i, x) in four.iter_mut().enumerate() {
                *x = self.table[(bits >> (16 * i)) as u16 as usize];
            }
        }
    }
}

/// The `(u + 1/2) / 65536` quantile of the standard normal distribution (Acklam's rational approximation, 1e-9).
fn quantile(u: u16) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let horner = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, c| sum * x + c);
    let p = (f64::from(u) + 0.5) / 65536.0;
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        horner(&C, q) / (horner(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        horner(&A, r) * q / (horner(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Normal, Random};

    #[test]
    fn values_have_mean_zero_and_the_deviation_asked() {
        let mut values = vec![0f32; 100_000];
        Normal::new(3.0).fill(&mut values, &mut Random::new(1, 2));
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
        let var = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.05 && (var.sqrt() - 3.0).abs() < 0.03, "mean {mean}, deviation {}", var.sqrt());
    }

    #[test]
    fn streams_differ_and_permutations_are_permutations() {
        assert_ne!(Random::new(1, 2).next_u64(), Random::new(1, 3).next_u64());
        let mut order = Random::new(5, 0).permutation(1000);
        assert_ne!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &x)| i as i32 == x));
    }
}
