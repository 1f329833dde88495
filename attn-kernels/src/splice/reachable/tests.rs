use super::*;

const UNIT: &str = r#"// attn-rs, a unit

#line 1 "a.cuh"
// What this file has.

struct Unused {
  int x;
};
// A pair.
struct Pair {
  int first, second;
};
inline Pair operator+(Pair a, Pair b) { return {a.first + b.first, a.second + b.second}; }
inline Unused operator-(Unused a) { return a; }
constexpr int ONE = 1, TWO = 2;
constexpr int THREE = 3;
template <class E, bool WIDE = (ONE > 3)>
E from_float(float x);
template <>
inline Pair from_float<Pair, false>(float x) {
#if __CUDA_ARCH__ >= 800
  return {TWO, 0};
#else
  return {0, 0};
#endif
}
template <class T>
void Unused<T>::f() {}
#define NUMBER_FN(NAME) \
  inline int NAME(int x) { return NAME##_of(x, Pasted()); }
struct Pasted {};
inline int negated_of(int x, Pasted) { return -x; }
inline int doubled_of(int x, Pasted) { return 2 * x; }
NUMBER_FN(negated)
NUMBER_FN(doubled)
#undef NUMBER_FN
#define NOBODY_FN(NAME) inline int NAME(int x) { return x; }
NOBODY_FN(unwanted)
#undef NOBODY_FN
enum Filter { TOP_K, TOP_P };
enum Nobody { NEITHER };
namespace bits {
inline int nobody(int x) { return x; }
}  // namespace bits
#ifdef __CUDACC__
inline float fast(float x) { return x; }
#else  // __CUDACC__
inline float fast(float x) { return -x; }
#endif  // __CUDACC__

#line 7 "traits"
constexpr int HEAD_DIM = 128;

#line 1 "b.cuh"
// nobody uses THREE, says a comment
using Number = float;
using Other = int;
using Long =
    Unused;
inline Number sum_of(Number x,
                     Number y) { return x + y; }
static_assert(HEAD_DIM == 128, "Other");
extern "C" __global__ void __launch_bounds__(32, 1)
    attn(const Number* x) {
  Pair pair = from_float<Pair>(fast(*x));
  negated(pair.first + TOP_K + int(sum_of(*x, *x)));
}
"#;

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|of| of.contains(line))
}

#[test]
fn what_a_kernel_uses_stays_and_nothing_else() {
    let text = reachable(UNIT);
    for line in [
        "struct Pair",
        "operator+",
        "sum_of(Number",
        "ONE = 1, TWO = 2",
        "from_float<Pair, false>",
        "from_float(float x);",
    ] {
        assert!(has(&text, line), "{line} is used:\n{text}");
    }
    for line in [
        "HEAD_DIM = 128",
        "using Number",
        "static_assert",
        "negated_of",
        "(negated)",
        "Pasted {",
        "TOP_P",
        "#undef NUMBER",
        "__global__",
        "// A pair",
        "return -x",
        "#endif",
    ] {
        assert!(has(&text, line), "{line} stays:\n{text}");
    }
    for line in
        ["Unused", "operator-", "doubled", "NEITHER", "NOBODY", "THREE = 3", "bits", "using Other", "using Long"]
    {
        assert!(!has(&text, line), "{line} is not used:\n{text}");
    }
    assert!(reachable(&text) == text, "nothing is left to leave out");
}

#[test]
fn lines_are_those_of_their_files() {
    let text = reachable(UNIT);
    let number_of = |text: &str, wanted: &str| {
        let (mut file, mut number) = (String::new(), 0);
        for line in text.lines() {
            if let Some((of_next, path)) = line.strip_prefix("#line ").and_then(|of| of.split_once(' ')) {
                (file, number) = (path.to_owned(), of_next.parse().expect("a number"));
                continue;
            }
            if line.contains(wanted) {
                return Some((file, number));
            }
            number += 1;
        }
        None
    };
    for line in ["// A pair", "struct Pair", "inline Pair from_float", "return -x", "HEAD_DIM = 128", "attn(const"] {
        let (before, after) = (number_of(UNIT, line), number_of(&text, line));
        assert!(before.is_some() && before == after, "{line}: {before:?}, {after:?}");
    }
}

#[test]
fn text_without_a_kernel_stays_as_it_is() {
    let text = "inline int f() { return 1; }\n";
    assert_eq!(reachable(text), text);
}
