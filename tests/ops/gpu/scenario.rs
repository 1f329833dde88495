//! A scenario of ops, which runs on the CPU, and on a GPU launched and captured.

use half::{bf16, f16};

use attn::lang::{F8E4M3, F8E5M2};
use attn::ops::*;
use attn::{DeviceBuffer, Dtype, Engine, Error, Graph, Stream};
use attn_core::tensor::Element;
use attn_tests::tolerance;

/// How an op is launched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Launched,
    Captured,
}

/// The engine and stream of a scenario.
pub(crate) struct Scenario {
    pub(crate) engine: Engine,
    stream: Stream,
    mode: Mode,
}

impl Scenario {
    pub(crate) fn new(engine: &Engine, mode: Mode) -> Self {
        Scenario { engine: engine.clone(), stream: engine.stream().expect("a stream"), mode }
    }

    /// Runs an op once, and waits for it.
    pub(crate) fn run(&self, mut op: impl FnMut(&Stream) -> Result<(), Error>) {
        if self.mode == Mode::Captured && !self.engine.is_cpu() {
            let mut graph = Graph::capture(&self.stream, || op(&self.stream)).expect("captured");
            // SAFETY: everything that it reads and writes lives until the stream is synchronised.
            unsafe { graph.replay(&self.stream, || Ok(())) }.expect("launched");
        } else {
            op(&self.stream).expect("sound");
        }
        self.stream.synchronize().expect("it ran");
    }

    pub(crate) fn upload(&self, dtype: Dtype, values: &[f32]) -> DeviceBuffer {
        fn of<T: Element>(engine: &Engine, values: &[f32]) -> DeviceBuffer {
            let values: Vec<T> = values.iter().map(|&x| T::from_f32(x)).collect();
            engine.upload(&values).expect("memory")
        }
        match dtype {
            Dtype::F16 => of::<f16>(&self.engine, values),
            Dtype::Bf16 => of::<bf16>(&self.engine, values),
            Dtype::F32 => of::<f32>(&self.engine, values),
            Dtype::E4m3 => of::<F8E4M3>(&self.engine, values),
            Dtype::E5m2 => of::<F8E5M2>(&self.engine, values),
            Dtype::U8 => {
                self.engine.upload_bytes(&values.iter().map(|&x| x as u8).collect::<Vec<_>>()).expect("memory")
            }
        }
    }

    pub(crate) fn poisoned(&self, dtype: Dtype, count: usize) -> DeviceBuffer {
        self.upload(dtype, &vec![f32::NAN; count])
    }

    pub(crate) fn numbers<T: Number>(&self, values: &[T]) -> DeviceArray<T> {
        DeviceArray::upload(&self.engine, values).expect("memory")
    }

    pub(crate) fn read(&self, buffer: &DeviceBuffer) -> Vec<f32> {
        self.engine.download_f32(buffer).expect("read")
    }
}

/// A GPU, or `None` with a message.
pub(crate) fn gpu() -> Option<Engine> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    attn_tests::gpu::gpu()
}

/// Checks that a scenario gives the same on the GPU, launched and replayed, as on the CPU, within a tolerance relative
/// to the value.
pub(crate) fn agree(gpu: &Engine, what: &str, tolerance: f32, scenario: impl Fn(&Scenario) -> Vec<f32>) {
    let want = scenario(&Scenario::new(&Engine::cpu(), Mode::Launched));
    for mode in [Mode::Launched, Mode::Captured] {
        let got = scenario(&Scenario::new(gpu, mode));
        tolerance::agree(&format!("{what}, {mode:?}"), &got, &want, tolerance);
    }
}
