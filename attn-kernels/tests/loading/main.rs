//! Where kernels and libraries are found: the cache, embedded kernels, the driver, and the search for a compiler.

mod aot;
mod cache;
mod driver;
mod planted_library;
#[path = "../support/stock.rs"]
mod stock;
