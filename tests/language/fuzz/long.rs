//! Random hooks of forty lines compile for Hopper within seconds.

use attn_core::{Registry, Variant, spec::KernelKind};
use attn_tests::compile_time::{CompileTime, traits};
use rand::{SeedableRng, rngs::SmallRng};

use crate::fuzz::generate;

/// The lines of a hook.
const LINES: usize = 40;

/// A random variant that the code generator takes: it refuses literals whose type it cannot infer.
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
    let Some(times) = CompileTime::new() else { return };
    // a seed from the environment searches other hooks
    let seed = std::env::var("ATTN_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(17);
    let mut rng = SmallRng::seed_from_u64(seed);
    let slow = |number| {
        let (text, variant) = variant(&mut rng, number);
        let too_long = times.too_long(&variant, &traits(KernelKind::Prefill, "sm_90a", &variant));
        too_long.map(|too_long| format!("{too_long}\n{text}"))
    };
    let slow: Vec<String> = (0..count).filter_map(slow).collect();
    assert!(slow.is_empty(), "{} of {count} take too long: {}", slow.len(), slow.join("\n"));
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
