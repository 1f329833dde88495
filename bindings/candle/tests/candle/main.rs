//! Tests of attention on candle's tensors: on the CPU, and with the feature `cuda` on a GPU too. They are one program,
//! because each that is built for CUDA holds candle's kernels.

#[path = "../../../../examples/candle/src/accuracy.rs"]
mod accuracy;
mod append;
mod llama;
mod refusals;
mod run;
mod support;
