//! Plans made on a GPU and updated, and what serving engines may rely on. Skipped without a GPU.

mod device_levels;
mod device_plan;
mod engine;
#[path = "../support/gpu.rs"]
mod gpu;
mod plan_update;
#[path = "../support/stock.rs"]
mod stock;
mod unsound_tables;
