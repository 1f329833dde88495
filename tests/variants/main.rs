//! The stock variants and the catalogue: each against its formula in f64, on the CPU and compiled as CUDA. Their
//! generated text is a file each.

mod ahead_of_time;
mod cases;
mod cpu;
mod docs;
mod kernels;
mod rows;
mod snapshots;
