//! Cases of verification, which run on every engine and in the emulated kernels. Results compare to the bit.

mod chain;
mod tree;

pub use chain::{ChainCase, chains};
pub use tree::{TreeCase, trees};

use attn::ops::{DeviceArray, Number};
use attn::sampling::prepare_verify;
use attn::{DeviceBuffer, Engine, Error, Graph, Stream, TensorRef};

use attn_core::random;

use crate::sampling::normals;

/// What a case gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Verified {
    pub ids: Vec<i32>,
    pub accepted: Vec<i32>,
    /// Of chains.
    pub emitted: Vec<i32>,
    /// Of trees.
    pub accept_index: Vec<i32>,
    pub positions: Vec<i64>,
}

impl Verified {
    /// Where results differ, in a line.
    pub fn difference(&self, want: &Verified) -> Option<String> {
        fn first<T: PartialEq + std::fmt::Debug>(name: &str, got: &[T], want: &[T]) -> Option<String> {
            (got != want).then(|| format!("{name} {got:?}, want {want:?}; ").chars().take(800).collect())
        }
        let parts = [
            first("ids", &self.ids, &want.ids),
            first("accepted", &self.accepted, &want.accepted),
            first("emitted", &self.emitted, &want.emitted),
            first("accept_index", &self.accept_index, &want.accept_index),
            first("positions", &self.positions, &want.positions),
        ];
        let text: String = parts.into_iter().flatten().collect();
        (!text.is_empty()).then_some(text)
    }
}

/// How an engine runs a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It calls the op twice.
    Launched,
    /// It captures one call, and replays the graph twice.
    Replayed,
}

/// What outputs hold before a call.
const UNWRITTEN: i32 = -7;

/// Verifies twice, so that the second time begins at the positions of the first.
fn twice(engine: &Engine, how: How, mut step: impl FnMut(&Stream) -> Result<(), Error>) {
    let stream = engine.stream().expect("a stream");
    if how == How::Replayed && !engine.is_cpu() {
        prepare_verify(engine).expect("kernels");
        let mut graph = Graph::capture(&stream, || step(&stream)).expect("captured");
        for _ in 0..2 {
            // SAFETY: everything that it reads and writes lives until the stream is synchronised.
            unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
            stream.synchronize().expect("it ran");
        }
    } else {
        for _ in 0..2 {
            step(&stream).expect("sound");
        }
        stream.synchronize().expect("it ran");
    }
}

fn numbers<T: Number>(engine: &Engine, of: &[T]) -> DeviceArray<T> {
    DeviceArray::upload(engine, of).expect("memory")
}

/// Rows of probabilities, with a gap behind each.
#[derive(Clone, Debug)]
struct ProbRows {
    shape: [usize; 3],
    gap: usize,
    /// (requests, rows, vocab + gap).
    values: Vec<f32>,
}

impl ProbRows {
    /// Softmaxes of random numbers with this deviation, and NaN in the gaps.
    fn random(shape: [usize; 3], gap: usize, seed: u32, deviation: f32) -> ProbRows {
        let [requests, rows, vocab] = shape;
        let mut values = vec![f32::NAN; requests * rows * (vocab + gap)];
        for (number, row) in values.chunks_mut(vocab + gap).enumerate() {
            let weights = normals(vocab, seed.wrapping_mul(31).wrapping_add(number as u32), deviation);
            let weights = weights.into_iter().map(f32::exp);
            let sum: f32 = weights.clone().sum();
            row.iter_mut().zip(weights).for_each(|(prob, weight)| *prob = weight / sum);
        }
        ProbRows { shape, gap, values }
    }

    fn row(&mut self, request: usize, row: usize) -> &mut [f32] {
        let [_, rows, vocab] = self.shape;
        &mut self.values[(request * rows + row) * (vocab + self.gap)..][..vocab]
    }

    /// A token by its probability.
    fn draw(&mut self, request: usize, row: usize, seed: u32) -> i32 {
        let mut left = random::uniform(seed, 77, request as u32, row as u32);
        let probs = self.row(request, row);
        let found = probs.iter().position(|prob| {
            left -= prob;
            left < 0.0
        });
        found.unwrap_or(0) as i32
    }

    /// Puts what is no probability in places.
    fn spoil(&mut self) {
        let spoilt = [f32::NAN, f32::INFINITY, -0.25, 3.0, 1e-42, f32::NEG_INFINITY, 1.5];
        let vocab = self.shape[2] + self.gap;
        for (i, value) in self.values.iter_mut().enumerate() {
            if (i / vocab + i).is_multiple_of(5) {
                *value = spoilt[i % spoilt.len()];
            }
        }
    }

    fn upload(&self, engine: &Engine) -> DeviceBuffer {
        // there may be no row
        let none = [f32::NAN];
        engine.upload(if self.values.is_empty() { &none } else { &self.values }).expect("memory")
    }

    fn tensor<'a>(&self, buffer: &'a DeviceBuffer) -> Result<TensorRef<'a>, Error> {
        let [requests, rows, vocab] = self.shape;
        let all = buffer.tensor(&[buffer.elements()])?.narrow(0, 0..self.values.len())?;
        let stride = (vocab + self.gap) as i64;
        let strides = [rows as i64 * stride, stride, 1];
        match all.device_ptr() {
            // SAFETY: the buffer holds all rows and outlives the tensor.
            Some(ptr) => Ok(unsafe { TensorRef::device(ptr, all.dtype(), &self.shape, &strides) }?),
            None => {
                let values = all.as_host::<f32>().expect("f32 on the host");
                Ok(TensorRef::host(values, &[requests, rows, vocab + self.gap])?.narrow(2, 0..vocab)?)
            }
        }
    }

    /// Strides from request to request and from row to row.
    fn strides(&self) -> [i64; 2] {
        let stride = (self.shape[2] + self.gap) as i64;
        [self.shape[1] as i64 * stride, stride]
    }

    fn address(&self) -> u64 {
        self.values.as_ptr() as u64
    }

    fn aligned(&self) -> bool {
        self.address().is_multiple_of(16) && (self.shape[2] + self.gap).is_multiple_of(4)
    }
}

/// Seeds and first positions of requests.
fn requests(count: usize) -> (Vec<u64>, Vec<i64>) {
    let seed = |request: u64| random::bits64(5, request, 0);
    ((0..count as u64).map(seed).collect(), (0..count as i64).map(|i| i * 1_000_000_007 - 3).collect())
}
