//! Random hooks of forty lines compile for Hopper within seconds.

use attn_core::{Registry, Variant, dtype::Dtypes, spec::KernelKind};
use attn_kernels::{
    compile::Compiler,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};
use attn_needs::{Need, needed};
use rand::{SeedableRng, rngs::SmallRng};

use crate::generate;

/// The lines of a hook.
const LINES: usize = 40;
/// The most seconds of a core that a kernel may take.
const SECONDS: f64 = 4.0;

/// Time of a core that this thread has used: NVRTC compiles on the thread that calls it.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // after the name of the program, in parentheses, user time and system time are the 12th and 13th word
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// A random variant that the code generator takes; it refuses literals whose type it cannot infer.
fn variant(rng: &mut SmallRng, number: usize) -> (String, Variant) {
    loop {
        let text = generate::long_file(rng, LINES);
        match attn_text::load(&[(&format!("long_{number}.rs"), &text)]) {
            Ok(variants) => {
                let mut registry = Registry::empty();
                registry.register_all(&variants).expect("one variant");
                return (text, Variant::parse_with("x", &registry).expect("defaults"));
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("write it, as in"), "{error}\n{text}");
            }
        }
    }
}

/// Compiles `count` random variants for prefill on WGMMA.
fn compile(count: usize) {
    let Some(compiler) = needed(Need::Nvrtc, Compiler::find()) else { return };
    let seed = std::env::var("ATTN_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(17);
    let mut rng = SmallRng::seed_from_u64(seed);
    let request =
        KernelTraitsRequest::new(KernelKind::Prefill, 128, Dtypes::bf16(), "sm_90a".parse().expect("an architecture"));
    let traits = KernelTraits::choose(&request).expect("supported");
    assert!(traits.is_sm90_prefill());
    let mut slow = Vec::new();
    for number in 0..count {
        let (text, variant) = variant(&mut rng, number);
        let source = KernelSource::build(&variant, &traits).expect("supported");
        if let Ok(folder) = std::env::var("ATTN_LONG_OUT") {
            std::fs::write(format!("{folder}/long_{number:02}.cu"), &source.text).expect("a folder");
            std::fs::write(format!("{folder}/long_{number:02}.rs"), &text).expect("a folder");
            continue;
        }
        let before = cpu_seconds();
        compiler.compile(&source.name, &source.text, traits.arch).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let Some(took) = cpu_seconds().zip(before).map(|(now, before)| now - before) else { continue };
        println!("{number}: {took:.2} s");
        if took > SECONDS {
            slow.push(format!("{took:.2} s:\n{text}"));
        }
    }
    assert!(slow.is_empty(), "{} of {count} take longer than {SECONDS} s: {}", slow.len(), slow.join("\n"));
}

#[test]
fn random_long_hooks_compile_within_seconds() {
    compile(4);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn sixty_random_long_hooks_compile_within_seconds() {
    compile(60);
}
