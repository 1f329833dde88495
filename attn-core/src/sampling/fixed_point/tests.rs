//! Fixed-point numbers against f64 and u128.

use proptest::prelude::*;

use super::*;

const ONE: f64 = (1u64 << MASS_BITS) as f64;

#[test]
fn the_likeliest_token_has_mass_one_at_every_temperature() {
    for temperature in [1e-45, 1e-38, 1e-6, 0.3, 1.0, 50.0, f32::MAX, f32::INFINITY] {
        let temper = temper(temperature);
        assert!(!temper.greedy);
        assert_eq!(mass_of_logit(0.0, temper.to_log2), 1 << MASS_BITS, "{temperature}");
        for masked in [f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
            assert_eq!(mass_of_logit(masked, temper.to_log2), 0, "{temperature}");
            assert_eq!(prob_of_logit(masked, temper.to_log2, 1.0), 0.0, "{temperature}");
        }
    }
    assert!([0.0, -0.0, -1.0, f32::NAN, f32::NEG_INFINITY].iter().all(|&t| temper(t).greedy));
}

#[test]
fn masses_of_probabilities_are_exact() {
    assert_eq!(mass_of_prob(0.5, 0.5), 1 << 35);
    assert_eq!(mass_of_prob(0.375, 0.5), 3 << 34 >> 1);
    assert_eq!(mass_of_prob(1e-30, 0.5), 0);
    for none in [0.0, -0.0, -0.5, f32::NAN, f32::NEG_INFINITY, 1e-40] {
        assert_eq!(mass_of_prob(none, 0.75), 0, "{none}");
    }
}

#[test]
fn min_p_of_the_ends() {
    assert_eq!(min_p_logit(0.0, 1.0, 3.0), f32::NEG_INFINITY);
    assert_eq!(min_p_logit(f32::NAN, 1.0, 3.0), f32::NEG_INFINITY);
    assert_eq!(min_p_logit(-1.0, 1.0, 3.0), f32::NEG_INFINITY);
    assert_eq!(min_p_logit(1.0, 1.0, 3.0), 3.0);
    assert_eq!(min_p_logit(2.0, 1.0, 3.0), 3.0);
    assert_eq!(min_p_logit(1e-45, 1.0, 3.0), 3.0 - 126.0 * std::f32::consts::LN_2);
}

#[test]
fn penalties_are_those_of_the_definition() {
    assert_eq!(penalised(3.0, 0, 2.0, 1.0, 0.5), 3.0);
    assert_eq!(penalised(3.0, 1 << 31, 2.0, 1.0, 0.5), 1.5);
    assert_eq!(penalised(-3.0, 1 << 31, 2.0, 1.0, 0.5), -6.0);
    assert_eq!(penalised(3.0, 4, 2.0, 1.0, 0.5), 1.5 - 1.0 - 2.0);
    assert_eq!(penalised(-3.0, 4 | 1 << 31, 2.0, 1.0, 0.5), -6.0 - 1.0 - 2.0);
    assert_eq!(penalised(f32::NEG_INFINITY, 4, 2.0, 1.0, 0.5), f32::NEG_INFINITY);
}

proptest! {
    #[test]
    fn masses_are_near_the_exponential(distance in -60f32..=0.0, temperature in 0.05f32..20.0) {
        let temper = temper(temperature);
        let want = (f64::from(distance) * f64::from(temper.to_log2)).exp2();
        let mass = mass_of_logit(distance, temper.to_log2) as f64 / ONE;
        prop_assert!((mass - want).abs() <= 3e-7 * want + 1.0 / ONE, "{mass} {want}");
        let prob = f64::from(prob_of_logit(distance, temper.to_log2, 1.0));
        prop_assert!((prob - want).abs() <= 3e-7 * want + 2f64.powi(-90), "{prob} {want}");
    }

    #[test]
    fn logarithms_are_near(number in 1u64.., unit in -63i32..=0) {
        let want = (number as f64).log2() + f64::from(unit);
        let got = f64::from(log2_of(number, unit));
        prop_assert!((got - want).abs() <= 1e-7 * want.abs() + 3e-7, "{got} {want}");
    }

    #[test]
    fn min_p_is_near(min_p in 1e-12f32..1.0, temperature in 0.05f32..20.0) {
        let want = 2.0 + f64::from(temperature) * f64::from(min_p).ln();
        let got = f64::from(min_p_logit(min_p, temperature, 2.0));
        prop_assert!((got - want).abs() <= 2e-6 * want.abs().max(1.0), "{got} {want}");
    }

    #[test]
    fn high_products(a: u64, b: u64) {
        prop_assert_eq!(mulhi(a, b), ((u128::from(a) * u128::from(b)) >> 64) as u64);
    }

    #[test]
    fn targets_are_exact(of in 1u64..1 << 60, share in -0.5f32..1.0) {
        let units = (f64::from(share.max(0.0)) * 4_294_967_296.0) as u128;
        let want = (u128::from(of) * units).div_ceil(1 << 32).max(1);
        prop_assert_eq!(u128::from(share_target(of, share)), want);
    }

    #[test]
    fn shares_are_near(mass in 1u64..1 << 36, more in 0u64..1 << 50) {
        let want = (mass as f64 / (mass + more) as f64).ln();
        prop_assert!((f64::from(share_of(mass, mass + more)) - want).abs() < 1e-5);
    }
}
