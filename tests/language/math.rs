//! Sine, cosine and reciprocal of kernels (`attn-kernels/cuda/lang/math.cuh`), compiled for the host, against f64.

use attn_tests::host;
use libloading::Library;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::f64::consts::FRAC_PI_2;

/// The functions of the header behind a C interface. `noise`: units in the last place that the GPU's estimate of a
/// reciprocal may be off.
const INTERFACE: &str = "
extern \"C\" {
float sine(float x) { float s, c; lang::sine_cosine(x, s, c); return s; }
float cosine(float x) { float s, c; lang::sine_cosine(x, s, c); return c; }
float reciprocal(float x) { return lang::reciprocal(x); }
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

/// Arguments of all magnitudes, positions times frequencies, and neighbours of multiples of pi / 2.
fn arguments(rng: &mut SmallRng) -> Vec<f32> {
    let mut all = vec![
        0.0,
        -0.0,
        1e-40,
        std::f32::consts::FRAC_PI_4,
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

/// The f64 results of the host's libm are exact for this purpose: an f64 ulp is far smaller than an f32 ulp.
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
fn reciprocals_are_rounded_correctly_but_for_near_ties() {
    let functions = Functions::compile();
    let mut rng = SmallRng::seed_from_u64(5);
    for noise in [-1, 0, 1] {
        functions.set_noise(noise);
        let reciprocal = |x: f32| functions.unary("reciprocal", x);
        for _ in 0..1_000_000 {
            let x = -rng.random_range(-126.0f32..126.0).exp2();
            let error = ulps(reciprocal(x), 1.0 / f64::from(x));
            assert!(error <= 0.501, "of {x:e}, estimate off by {noise}: {error} units");
        }
        for exponent in -126..=126 {
            assert_eq!(reciprocal(2f32.powi(exponent)), 2f32.powi(-exponent));
        }
        let special = [0.0, -0.0, 1e-45, -1e-40, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, -f32::INFINITY, f32::NAN];
        let any: Vec<f32> = (0..1_000_000).map(|_| f32::from_bits(rng.random())).collect();
        for x in special.into_iter().chain(any) {
            let (got, want) = (reciprocal(x), 1.0 / x);
            let apart = (i64::from(got.to_bits()) - i64::from(want.to_bits())).abs();
            assert!(got.is_nan() && want.is_nan() || apart <= 1, "of {x:e}: {want:e}, not {got:e}");
        }
    }
}
