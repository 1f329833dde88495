//! Sampling and verification of drafts: against a naive reference on the CPU; emulated and on a GPU, the bits of the
//! CPU.

mod cpu;
mod emulated;
mod gpu;
mod verify_emulated;
mod verify_gpu;
