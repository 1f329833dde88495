//! What engines do: one engine of many layers, captured steps, memory and streams of the caller, parameter tensors
//! that change.

mod captures;
mod engine;
mod graph;
mod growing;
mod order_gpu;
mod per_request;
mod raw_gpu;
mod set_tensor;
