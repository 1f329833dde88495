//! The time of a core that kernels take to compile.

use attn_core::{dtype::Dtypes, expr::Variant, spec::KernelKind};
use attn_kernels::compile::Compiler;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::KernelSource;
use attn_needs::{Need, needed};

/// The most seconds of an idle core that a kernel with long hooks may take.
const SECONDS: f64 = 4.0;
/// The same in units of the time of a kernel without hooks: a busy machine is slower for both.
const TIMES_PLAIN: f64 = 4.0;
/// Measurements of a kernel that takes too long: others on the machine come and go between the two that are compared.
const TRIES: usize = 3;

/// A compiler that keeps the time.
#[derive(Debug)]
pub struct CompileTime {
    compiler: Compiler,
    limit: f64,
}

impl CompileTime {
    /// Finds a compiler, and compiles a kernel without hooks; `None` if the test is to be skipped.
    pub fn new() -> Option<Self> {
        let compiler = needed(Need::Nvrtc, Compiler::find())?;
        let mut times = CompileTime { compiler, limit: SECONDS };
        times.limit = times.measured_limit();
        Some(times)
    }

    /// Compiles a kernel; returns its time where it took too long each time.
    #[allow(clippy::print_stdout)] // the times of a test
    pub fn too_long(&self, variant: &Variant, traits: &KernelTraits) -> Option<String> {
        let (mut limit, mut of) = (self.limit, String::new());
        for _ in 0..TRIES {
            let took = self.seconds(variant, traits);
            of = format!("{took:.2} of {limit:.2} s: {variant}, {}", traits.describe());
            println!("{of}");
            if took <= limit {
                return None;
            }
            limit = self.measured_limit();
        }
        Some(of)
    }

    fn measured_limit(&self) -> f64 {
        let plain = Variant::full();
        SECONDS.max(TIMES_PLAIN * self.seconds(&plain, &traits(KernelKind::Prefill, "sm_90a", &plain)))
    }

    /// # Panics
    /// The kernel does not compile.
    fn seconds(&self, variant: &Variant, traits: &KernelTraits) -> f64 {
        let source = KernelSource::build(variant, traits).expect("supported");
        let before = cpu_seconds();
        self.compiler
            .compile(&source.name, &source.text, traits.common.arch)
            .unwrap_or_else(|error| panic!("{error}\n{}", source.text));
        cpu_seconds().zip(before).map_or(0.0, |(now, before)| now - before)
    }
}

/// The traits of a kernel over bf16 with head dim 128. `arch` chooses the backend of prefill.
///
/// # Panics
/// There is no such kernel.
pub fn traits(kind: KernelKind, arch: &str, variant: &Variant) -> KernelTraits {
    let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch.parse().expect("an architecture"));
    KernelTraits::choose(&request.with_hooks([variant])).expect("supported")
}

/// Time of a core that this thread has used: NVRTC compiles on the thread that calls it. Linux tells it.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // after the name of the program, in parentheses, user time and system time are the 12th and 13th word
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| words.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
