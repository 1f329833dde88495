//! What an expression may cost: it may come from a user of a server. What costs more is refused by name, before hints
//! are looked for.

use std::cell::Cell;

use super::error::ExprError;

/// The most bytes of an expression.
pub(super) const BYTES: usize = 4 << 20;
/// The most letters of a name.
pub(super) const NAME: usize = 128;
/// The most parts of an expression, those inside combinators included.
pub(super) const PARTS: usize = 4096;

/// The parts that an expression may still have.
pub(super) struct PartsLeft(Cell<usize>);

impl PartsLeft {
    pub(super) fn new() -> Self {
        PartsLeft(Cell::new(PARTS))
    }

    /// Counts a part.
    pub(super) fn take(&self) -> Result<(), ExprError> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.unwrap_or(0));
        let way_out = "write what many parts do as one variant, with a parameter tensor";
        left.map(drop).ok_or(ExprError::Budget { budget: "parts", found: PARTS + 1, most: PARTS, way_out })
    }
}

pub(super) fn check_text(text: &str) -> Result<(), ExprError> {
    let way_out = "give long tensors by name beside the expression";
    check("bytes", text.len(), BYTES, way_out)
}

pub(super) fn check_name(name: &str) -> Result<(), ExprError> {
    check("letters in a name", name.len(), NAME, "no variant or parameter has such a name")
}

fn check(budget: &'static str, found: usize, most: usize, way_out: &'static str) -> Result<(), ExprError> {
    if found <= most { Ok(()) } else { Err(ExprError::Budget { budget, found, most, way_out }) }
}
