//! The engine over a model that reads its context back through page tables: scenarios, random operations, and a
//! soak over a real model.

mod fake;
mod handle;
mod properties;
mod refusals;
mod scenarios;
mod soak_gpu;
mod world;
