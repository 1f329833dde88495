//! The engine over a model that reads its context back through page tables: scenarios, random operations, a soak.

mod fake;
mod handle;
mod properties;
mod refusals;
mod scenarios;
mod soak;
mod soak_gpu;
mod world;
