//! Indexers and attention to what they choose: on the CPU against loops in f64; emulated and on a GPU against the CPU.

mod cpu;
mod emulated;
mod gpu;
