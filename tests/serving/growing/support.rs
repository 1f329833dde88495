//! What the tests of growing tensors share: synthetic elements, arrays of an engine, a flat plan to compare with, and
//! work that is captured once and replayed.

use attn::{
    Error, Graph, Out, Stream,
    batch::I32Slice,
    expr::TensorContent,
    ops::{DeviceArray, Number},
    prelude::*,
};
use attn_tests::synthetic::values;

pub(super) const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
/// Elements of a token: of q or o, and of k or v.
pub(super) const ROW: [usize; 2] = [4 * 64, 2 * 64];
/// Keys before the first step.
pub(super) const PROMPT: usize = 5;
/// Steps of a decode loop.
pub(super) const STEPS: usize = 200;

/// Synthetic elements.
pub(super) fn halves(count: usize, seed: u32) -> Vec<f16> {
    values(count, seed).into_iter().map(f16::from_f32).collect()
}

/// An array in memory of an engine as the content of a tensor.
pub(super) fn content<T: Number + attn::lang::ParamElement>(of: &DeviceArray<T>) -> TensorContent<'_>
where
    Tensor1<T>: attn::lang::ParamField,
{
    let array = of.array();
    match (array.as_host(), array.device_ptr()) {
        (Some(values), _) => TensorContent::host(values),
        // SAFETY: the tests keep the memory as long as the graphs that read it.
        (None, ptr) => unsafe { TensorContent::device::<T>(ptr.expect("on the device"), of.len()) },
    }
}

/// An array of i32 of an engine as the array of a batch on the device.
pub(super) fn ints(of: &DeviceArray<i32>) -> I32Slice<'_> {
    let array = of.array();
    match (array.as_host(), array.device_ptr()) {
        (Some(values), _) => I32Slice::host(values),
        // SAFETY: as above.
        (None, ptr) => unsafe { I32Slice::device(ptr.expect("on the device"), of.len()) },
    }
}

/// An array in memory of an engine.
pub(super) fn numbers<T: Number>(engine: &Engine, values: &[T]) -> DeviceArray<T> {
    DeviceArray::upload(engine, values).expect("memory")
}

pub(super) fn assert_close(engine: &Engine, what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (x, y)) in got.iter().zip(want).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{engine}, {what}: {x}, not {y}, at {i}");
    }
}

/// The output of a plan of its own for a ragged batch: what a step must equal.
pub(super) fn flat(engine: &Engine, attention: &Attention, q: &[f16], kv: [&[f16]; 2], batch: &Batch<'_>) -> Vec<f32> {
    let stream = engine.stream().expect("a stream");
    let plan = attention.plan(batch, &mut engine.workspace()).expect("exact");
    let (rows, keys) = (q.len() / ROW[0], kv[0].len() / ROW[1]);
    let [q, k, v] = [q, kv[0], kv[1]].map(|data| engine.upload(data).expect("memory"));
    let mut o = engine.alloc(Dtype::F16, rows * ROW[0]).expect("memory");
    let shape = |tokens, heads| [tokens, heads, 64];
    let kv = Kv::ragged(k.tensor(&shape(keys, 2)).expect("fits"), v.tensor(&shape(keys, 2)).expect("fits"));
    let out = Out::new(o.tensor_mut(&shape(rows, 4)).expect("fits"));
    plan.run(&stream, q.tensor(&shape(rows, 4)).expect("fits"), kv, out).expect("runs");
    stream.synchronize().expect("ran");
    engine.download_f32(&o).expect("ran")
}

/// Runs `work` once, captures it, and replays it; on the CPU it calls it each time.
pub(super) struct Captured(pub(super) Option<Graph>);

impl Captured {
    pub(super) fn step(&mut self, stream: &Stream, mut work: impl FnMut() -> Result<(), Error>) {
        let Some(graph) = &mut self.0 else {
            work().expect("runs");
            self.0 = Some(Graph::capture(stream, work).expect("captured"));
            return;
        };
        // SAFETY: the tests keep everything that the work uses, and use it from one thread.
        unsafe { graph.replay(stream, work) }.expect("replayed");
    }
}
