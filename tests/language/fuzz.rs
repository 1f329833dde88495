//! Random hooks: the generated C++, compiled for the host, against an evaluator of the same Rust.
//!
//! Every result is compared to the bit: contraction is off, and only exactly rounded functions are called.

mod evaluate;
mod found_tiles;
mod generate;
mod inputs;
mod long;
mod masks;
mod methods;
mod user_masks;
mod value;

use std::{fmt::Write as _, process::Command};

use attn_core::lang::divide::{signed, unsigned};
use attn_tests::{compiler, host};
use evaluate::evaluate;
use inputs::Inputs;
use libloading::Library;
use rand::{SeedableRng, rngs::SmallRng};

const FUNCTIONS: usize = 200;
const ROUNDS: usize = 60;

/// C++ with a `struct Hooks` for each generated hook, and a table of them.
fn source(hooks: &[String]) -> String {
    let mut text = format!("#define ATTN_HOST\n{}\nnamespace lang {{\n", host::lang());
    let item = syn::parse_str(generate::STRUCT).expect("a struct");
    text += &attn_codegen::device_type::text(&item).expect("numbers alone");
    for (k, hook) in hooks.iter().enumerate() {
        let fields = "int a_; int n_; u32 u_; alignas(4) bool flag_; float x_; Tensor1<int> t_; \
                      Divisor<int> a_div_; Divisor<int> n_div_; Divisor<u32> u_div_;";
        let _ = writeln!(text, "struct Hooks{k} {{ {fields}\n{hook}}};");
    }
    text +=
        "}\nextern \"C\" float run(int k, const void* params, float logit, const LogitIndex* at) {\n  switch (k) {\n";
    for k in 0..hooks.len() {
        let call = format!("static_cast<const lang::Hooks{k}*>(params)->logits_transform(logit, *at)");
        let _ = writeln!(text, "    case {k}: return {call};");
    }
    text + "    default: return 0;\n  }\n}\n"
}

/// The arguments of `run` with their C layout.
#[repr(C)]
struct Params {
    a: i32,
    n: i32,
    u: u32,
    flag: u32,
    x: f32,
    table: *const i32,
    extents: [i32; 2],
    a_div: signed::Divisor,
    n_div: signed::Divisor,
    u_div: unsigned::Divisor,
}

#[test]
fn random_hooks_equal_the_evaluated_rust() {
    // a seed from the environment searches other hooks
    let seed = std::env::var("ATTN_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(2024);
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut functions, mut hooks, mut refused) = (Vec::new(), Vec::new(), 0);
    while functions.len() < FUNCTIONS {
        let text = generate::hook(&mut rng);
        let item: syn::ItemImpl = syn::parse_str(&text).unwrap_or_else(|e| panic!("{e}:\n{text}"));
        match attn_codegen::variant::hooks(&item) {
            Ok(mut made) => {
                hooks.push(made.remove(0).cuda);
                functions.push((text, item));
            }
            // the code generator refuses literals whose type it cannot infer
            Err(report) => {
                let report = report.into_tokens().to_string();
                assert!(
                    report.matches("compile_error").count() == report.matches("write it, as in").count(),
                    "{report}\n{text}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused < FUNCTIONS, "{refused} refused");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source_file, library) = (folder.path().join("fuzz.cpp"), folder.path().join("fuzz.so"));
    std::fs::write(&source_file, source(&hooks)).expect("a folder for the test");
    let out = Command::new(compiler::compiler())
        .args(["-std=c++17", "-Og", "-ffp-contract=off", "-fno-fast-math", "-shared", "-fPIC", "-w"])
        .arg("-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bool")
        .args(["-fsanitize-undefined-trap-on-error", "-o"])
        .args([&library, &source_file])
        .output()
        .expect("the compiler runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // SAFETY: the library was just built from our own text and has no constructors.
    let library = unsafe { Library::new(&library) }.expect("a library");
    type Run = unsafe extern "C" fn(i32, *const Params, f32, *const [i32; 10]) -> f32;
    // SAFETY: `source` defines this signature.
    let run = unsafe { library.get::<Run>(b"run") }.expect("it is there");

    let mut failures = Vec::new();
    for (k, (text, item)) in functions.iter().enumerate() {
        for _ in 0..ROUNDS {
            let inputs = Inputs::random(&mut rng);
            let want = evaluate(item, &inputs);
            let params = Params {
                a: inputs.a,
                n: inputs.n,
                u: inputs.u,
                flag: u32::from(inputs.flag),
                x: inputs.x,
                table: inputs.table.as_ptr(),
                extents: [inputs.table.len() as i32, 0],
                a_div: signed::Divisor::new(inputs.a),
                n_div: signed::Divisor::new(inputs.n),
                u_div: unsigned::Divisor::new(inputs.u),
            };
            // SAFETY: the parameters have the struct's layout, the tensor outlives the call, the index has ten words.
            let got = unsafe { run(k as i32, &params, inputs.logit, &inputs.words()) };
            let (want_bits, got_bits) = (want.to_bits(), got.to_bits());
            if !(want_bits == got_bits || want.is_nan() && got.is_nan()) {
                failures.push(format!(
                    "{inputs:?} gives {want_bits:#x} in Rust, {got_bits:#x} in C++:\n{text}\n{}",
                    hooks[k]
                ));
                break;
            }
        }
    }
    // the shortest failure is the easiest to read
    let shortest = failures.iter().min_by_key(|f| f.len());
    assert!(shortest.is_none(), "{} of {FUNCTIONS} differ: {}", failures.len(), shortest.map_or("", |f| f));
}

/// Checks the evaluator against rustc.
#[test]
fn the_evaluator_agrees_with_rust() {
    let inputs = Inputs::random(&mut SmallRng::seed_from_u64(1));
    let is = |body: &str, want: f32| {
        let text = format!("impl AttentionVariant for X {{ fn logits_transform(&self) -> f32 {{ {body} }} }}");
        let got = evaluate(&syn::parse_str(&text).expect("Rust"), &inputs);
        assert!(got == want, "{body}: {got}, not {want}");
    };
    is("let x: u8 = 250; (x + 10) as f32", 4.0);
    is("let mut s = 0; for i in 3..=5u8 { if i == 4 { continue; } s += i as i32; } s as f32", 8.0);
    is("(-7 / 2 * 10 + -7 % 3) as f32", -31.0);
    is("let x = 3; let x = x << 33; (x as i32) as f32", 6.0);
    is("match 5 { 0 => 1.0, 1..=4 => 2.0, n if n > 4 => n as f32, _ => 0.0 }", 5.0);
    is("(f32::NAN as i32 + -1e20f32 as i32 / i32::MIN) as f32", 1.0);
    is("let (a, b) = (1, 2.5); ({ let a = b; a }) + a as f32", 3.5);
    is("if (!0u32 >> 4) > 5 { return 9.0; } 1.0", 9.0);
    is(
        "let mut a: [u8; 4] = [250; 4]; for k in 0..4 { a[k] += k as u8 * 3; } \
         a[3] as f32 + a[(-1 & 1) as usize] as f32",
        256.0,
    );
    is(
        "let s = S { real: 0.5, int: 3, word: 1, byte: 250, long: 0, far: 0, truth: true }; \
         let mut t = S { int: s.int * 2, ..s }; \
         t.byte += 10; t.int as f32 + t.real + t.byte as f32 + s.byte as f32",
        260.5,
    );
    is("(7u32.div_ceil(2) + 5u32.next_power_of_two() + 9u32.next_multiple_of(4)) as f32", 24.0);
}
