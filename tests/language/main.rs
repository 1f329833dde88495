//! The language: generated CUDA against the same Rust, on random inputs. What the macro derives of a hook (tile
//! classes, bounds, slopes, rows of biases) against every element. Misuse, with the message that a user sees.

mod bias_rows;
mod bounds;
mod composition;
mod divide;
mod extreme_positions;
mod fuzz;
mod host_diff;
mod kernels;
mod long_hooks;
mod long_hooks_emulated;
mod math;
mod nvrtc;
mod slopes;
mod tables;
mod tiles_of_language;
mod tiles_of_masks;
mod ui;
