//! Sine, cosine and division as kernels compute them (`attn-kernels/cuda/math.cuh`), compiled for the host, against f64.

use attn_tests::host;
use libloading::Library;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::f64::consts::FRAC_PI_2;

/// The functions of the header behind a C interface. `noise`: units in the last place that the GPU's estimate of a
/// reciprocal may be off.
const INTERFACE: &str = "
extern \"C\" {
float sine(float x) { return lang::sine(x); }
float cosine(float x) { return lang::cosine(x); }
float quotient(float a, float b) { return lang::quotient(a, b); }
void set_noise(int units) { lang::estimate_noise = units; }
}
";

struct Functions {
    library: Library,
    _folder: tempfile::TempDir,
}

impl Functions {
    fn compile() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = host::library(folder.path(), &format!("{}\n{INTERFACE}", host::lang()));
        Functions { library, _folder: folder }
    }

    fn unary(&self, name: &str, x: f32) -> f32 {
        // SAFETY: `INTERFACE` defines the name with this signature.
        unsafe { self.library.get::<unsafe extern "C" fn(f32) -> f32>(name.as_bytes()).expect(name)(x) }
    }

    fn quotient(&self, a: f32, b: f32) -> f32 {
        // SAFETY: `INTERFACE` defines the name with this signature.
        unsafe { self.library.get::<unsafe extern "C" fn(f32, f32) -> f32>(b"quotient").expect("quotient")(a, b) }
    }

    fn set_noise(&self, units: i32) {
        // SAFETY: `INTERFACE` defines the name with this signature.
        unsafe { self.library.get::<unsafe extern "C" fn(i32)>(b"set_noise").expect("set_noise")(units) }
    }
}

/// How far `got` is from `want`, in units of the last place of an f32 of that size.
fn ulps(got: f32, want: f64) -> f64 {
    let exponent = want.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (f64::from(got) - want).abs() / (exponent - 23.0).exp2()
}

/// Floats to look at: all sizes, positions times frequencies, and next to multiples of pi / 2.
fn arguments(rng: &mut SmallRng) -> Vec<f32> {
    let mut all = vec![
        0.0,
        -0.0,
        1e-40,
        0.785_398_2,
        1_048_575.9,
        1_048_576.0,
        2_097_152.0,
        f32::MAX,
        16_367_173.0 * 2f32.powi(72),
    ];
    all.extend((0..300_000).map(|_| rng.random_range(-22.0f32..22.0).exp2() * if rng.random() { 1.0 } else { -1.0 }));
    all.extend((0..100_000).map(|_| rng.random_range(22.0f32..127.9).exp2()));
    all.extend((0..200_000).map(|_| rng.random_range(0..1 << 21) as f32 * rng.random_range(0.0f32..1.0)));
    all.extend((0..1 << 18).map(|position| position as f32));
    // f32s closest to every multiple below 2^22, and their neighbours
    for quarter in 1..2_670_000u32 {
        let near = (f64::from(quarter) * FRAC_PI_2) as f32;
        all.extend([near, near.next_up(), near.next_down()]);
    }
    all
}

/// f64 sine and cosine of the host's libm are exact to its last place, which is far below one of f32.
#[test]
fn sines_and_cosines_are_within_two_units_of_the_last_place() {
    let functions = Functions::compile();
    let mut rng = SmallRng::seed_from_u64(3);
    let mut worst = (0.0f64, 0.0f32);
    for x in arguments(&mut rng) {
        let exact = f64::from(x);
        for error in [ulps(functions.unary("sine", x), exact.sin()), ulps(functions.unary("cosine", x), exact.cos())] {
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    assert!(worst.0 <= 2.0, "{} units at {:e}", worst.0, worst.1);
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(functions.unary("sine", x).is_nan() && functions.unary("cosine", x).is_nan(), "{x}");
    }
}

#[test]
fn quotients_are_rounded_but_for_near_ties_and_exact_where_they_can_be() {
    let functions = Functions::compile();
    let mut rng = SmallRng::seed_from_u64(5);
    for noise in [-1, 0, 1] {
        functions.set_noise(noise);
        for _ in 0..400_000 {
            let mut float = |low: f32, high: f32| rng.random_range(low..high).exp2() * rng.random_range(1.0f32..2.0);
            let (a, b) = (float(-60.0, 60.0), -float(-60.0, 60.0));
            let error = ulps(functions.quotient(a, b), f64::from(a) / f64::from(b));
            assert!(error <= 0.501, "{a:e} / {b:e}, estimate off by {noise}: {error} units");
        }
        for _ in 0..400_000 {
            let (a, b) = (rng.random_range(-4096i32..4096) as f32, rng.random_range(1i32..4096) as f32);
            assert_eq!(functions.quotient(a * b, b), a, "{a} * {b} / {b}");
        }
        // any two floats: specials, subnormals, overflow
        for _ in 0..400_000 {
            let (a, b) = (f32::from_bits(rng.random()), f32::from_bits(rng.random()));
            check_any(&functions, a, b);
        }
        let special =
            [0.0, -0.0, 1.0, -3.0, 1e-45, -1e-40, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, -f32::INFINITY, f32::NAN];
        for a in special {
            for b in special {
                check_any(&functions, a, b);
            }
        }
    }
}

/// Within a unit of IEEE's, or three where a remainder may be subnormal.
fn check_any(functions: &Functions, a: f32, b: f32) {
    let (got, want) = (functions.quotient(a, b), a / b);
    let apart = (i64::from(got.to_bits()) - i64::from(want.to_bits())).abs();
    let small = a.abs().min(want.abs()) < 1e-30;
    let close = got == want || got.is_nan() && want.is_nan() || apart <= if small { 3 } else { 1 };
    assert!(close, "{a:e} / {b:e} is {want:e}, not {got:e}");
}
