//! Kernels and the CPU backend against the f64 reference. `*_emulated`: compiled for the host and run thread by thread.
//! `*_gpu`: skipped without a GPU.

mod case_kernels_gpu;
mod cpu;
mod cuda_cores_emulated;
mod decode_emulated;
mod e4m3;
mod e4m3_accuracy;
mod emulated_functions;
mod mixed_emulated;
mod outputs;
mod outputs_emulated;
mod outputs_gpu;
mod partial_emulated;
mod prefill_latent_emulated;
mod prefill_resident_emulated;
mod prefill_sm80_emulated;
mod prefill_sm90_emulated;
mod reference;
mod sanitized_emulated;
mod skip_softmax;
mod skip_softmax_emulated;
