//! Host time of a step.

fn main() {}
