//! `generate "prompt"` streams a text.

fn main() {}
