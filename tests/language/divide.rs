//! Division by a prepared divisor equals Rust's division, for critical and for random operands.

use attn_core::lang::divide::{signed, unsigned};
use attn_tests::host;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const TEXT: &str = "
template <class T> static void all(int op, const void* divisor, const T* a, T* out, int n) {
  const lang::Divisor<T>& by = *static_cast<const lang::Divisor<T>*>(divisor);
  for (int i = 0; i < n; ++i)
    out[i] = op == 0 ? div_by(a[i], by) : op == 1 ? rem_by(a[i], by)
           : op == 2 ? div_euclid_by(a[i], by) : rem_euclid_by(a[i], by);
}
extern \"C\" {
void run_i32(int op, const void* by, const int* a, int* out, int n) { all(op, by, a, out, n); }
void run_u32(int op, const void* by, const lang::u32* a, lang::u32* out, int n) { all(op, by, a, out, n); }
}
";

type Run = unsafe extern "C" fn(i32, *const u32, *const u32, *mut u32, i32);

/// Small numbers, numbers around every power of two, and random numbers.
fn numbers(rng: &mut SmallRng, random: usize) -> Vec<u32> {
    let mut all: Vec<u32> = (0..300).collect();
    for bit in 0..32 {
        all.extend((0..5).map(|d| (1u32 << bit).wrapping_add(d).wrapping_sub(2)));
    }
    all.extend((0..random).map(|_| rng.random::<u32>() >> rng.random_range(0..31)));
    let negative: Vec<u32> = all.iter().map(|n| n.wrapping_neg()).collect();
    all.extend(negative);
    all
}

#[test]
fn a_prepared_division_is_exact() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = host::library(folder.path(), &format!("{}\n{TEXT}", host::lang()));
    let mut rng = SmallRng::seed_from_u64(3);
    let divisors = numbers(&mut rng, 2000);
    let mut dividends = numbers(&mut rng, 1000);
    let fixed = dividends.len();
    for by in divisors {
        // multiples of the divisor and their neighbours
        dividends.truncate(fixed);
        for _ in 0..100 {
            let multiple = by.wrapping_mul(rng.random::<u32>() / by.max(1));
            dividends.extend([multiple.wrapping_sub(1), multiple, multiple.wrapping_neg(), multiple.wrapping_add(1)]);
        }
        for op in 0..4 {
            let run = |name: &str, words: [u32; 3]| {
                let mut out = vec![0; dividends.len()];
                // SAFETY: `TEXT` defines this signature; a divisor is three words, and both arrays have the given
                // length.
                unsafe {
                    let f = library.get::<Run>(name.as_bytes()).expect("it is there");
                    f(op, words.as_ptr(), dividends.as_ptr(), out.as_mut_ptr(), dividends.len() as i32);
                }
                out
            };
            let signed = run("run_i32", {
                let signed::Divisor { value, magic, shift } = signed::Divisor::new(by as i32);
                [value as u32, magic, shift]
            });
            let unsigned = run("run_u32", {
                let unsigned::Divisor { value, magic, shift } = unsigned::Divisor::new(by);
                [value, magic, shift]
            });
            for ((&a, i), u) in dividends.iter().zip(signed).zip(unsigned) {
                let (x, y) = (a as i32, by as i32);
                let (want_i, want_u) = match (y, op) {
                    (0, _) => (0, 0),
                    (_, 0) => (x.wrapping_div(y), a / by),
                    (_, 1) => (x.wrapping_rem(y), a % by),
                    (_, 2) => (x.wrapping_div_euclid(y), a / by),
                    _ => (x.wrapping_rem_euclid(y), a % by),
                };
                assert_eq!(i as i32, want_i, "{x} by {y}, operation {op}");
                assert_eq!(u, want_u, "{a} by {by}, operation {op}, unsigned");
            }
        }
    }
}
