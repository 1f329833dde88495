//! Masks that are an interval of keys for each row.

use super::form::Form;

/// `Bounds kv_bounds(const RowIndex& at) const`, or nothing.
#[must_use]
pub(super) fn kv_bounds(_form: &Form) -> String {
    String::new()
}
