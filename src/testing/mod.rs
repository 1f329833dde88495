//! Cases, checks and timings as a library: what `attn check` and `attn bench` do.
mod case;
mod error;
mod fill;
pub mod grid;
mod inputs;
mod metrics;
mod pairs;
mod random;

pub use case::{Case, LayoutKind, Lens, Order};
pub use error::TestError;
pub use inputs::{Host, Inputs, Keys};
pub use metrics::{Distance, Tolerance};
pub use pairs::attended;
