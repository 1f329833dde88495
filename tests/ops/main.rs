//! Ops: their effect on attention on the CPU; their kernels, emulated and on a GPU, against the CPU.

mod bits_emulated;
mod cpu;
mod emulated;
mod gpu;
mod queries_cpu;
