//! Advice that needs more than one macro sees. Constants and types that the macros write know it, and which of two they
//! name decides whether rustc warns or refuses.

use super::{DeviceFn, FieldDesc, FieldType, desc::Elem};

/// Warnings that the derive wrote for each field, in case no hook reads it: it knows the names of the fields, and the
/// other macro what is read.
#[doc(hidden)]
pub trait Notes {
    /// Its constant `PARAMETER` is deprecated when there is a field of this number.
    type Unread<const FIELD: usize>;
}

/// Stands in the module of a function with `#[device_fn]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithDeviceFn;

/// Stands in for it where the function has no such module.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithoutDeviceFn;

/// Of functions with `#[device_fn]`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a hook calls this function, which is not marked with `#[device_fn]`",
    label = "put `#[device_fn]` on this function, where it is defined",
    note = "a hook runs on the GPU too, so the functions that it calls have to be known there"
)]
pub trait IsDeviceFn {}
impl IsDeviceFn for WithDeviceFn {}

/// Asks whether a function is marked.
#[doc(hidden)]
#[must_use]
pub const fn marked<M: IsDeviceFn>(helper: &'static DeviceFn) -> &'static DeviceFn {
    helper
}

/// What a glob brings in place of the module that `#[device_fn]` makes: `use f as __helper` brings the function's own if there
/// is one, which goes before the glob's.
#[doc(hidden)]
pub mod unmarked {
    /// As the module of a helper.
    pub mod __helper {
        use crate::lang::{DeviceFn, range::Val};

        pub use crate::lang::notes::WithoutDeviceFn as DeviceFnMark;

        /// No text.
        pub static DEVICE_FN: DeviceFn =
            DeviceFn { name: "", cuda: "", over: "", device_fns: &[], types: &[], consts: &[] };

        /// Anything.
        pub fn over<const N: usize>(_: [Val; N]) -> Val {
            Val::Any
        }
    }
}

/// The `nth` parameter that is missing in `read`, and in every shape, default and condition; `usize::MAX` without one.
#[must_use]
pub const fn unread(fields: &[FieldDesc], read: &[&str], nth: usize) -> usize {
    let mut i = 0;
    while i < fields.len() {
        // the default of a tensor is a function of all parameters
        if matches!(fields[i].ty, FieldType::Tensor { .. }) && fields[i].default.is_some() {
            return usize::MAX;
        }
        i += 1;
    }
    let mut i = 0;
    let mut left = nth;
    while i < fields.len() {
        if !is_read(fields, fields[i].name, read) {
            if left == 0 {
                return i;
            }
            left -= 1;
        }
        i += 1;
    }
    usize::MAX
}

const fn is_read(fields: &[FieldDesc], name: &str, read: &[&str]) -> bool {
    let mut found = false;
    let mut k = 0;
    while k < read.len() {
        found |= same(read[k].as_bytes(), name.as_bytes());
        k += 1;
    }
    let mut k = 0;
    while k < fields.len() {
        let field = &fields[k];
        found |= says(field.shape, name) || said(field.default, name) || said(field.require, name);
        k += 1;
    }
    found
}

/// Whether an integer parameter has no condition.
#[must_use]
pub const fn may_be_zero(fields: &[FieldDesc], name: &str) -> bool {
    let mut i = 0;
    let mut whole = false;
    while i < fields.len() {
        let field = &fields[i];
        if said(field.require, name) {
            return false;
        }
        if same(field.name.as_bytes(), name.as_bytes()) {
            if field.require.is_some() {
                return false;
            }
            whole = matches!(field.ty, FieldType::Scalar(Elem::I32 | Elem::U32));
        }
        i += 1;
    }
    whole
}

const fn said(text: Option<&str>, word: &str) -> bool {
    match text {
        Some(text) => says(text, word),
        None => false,
    }
}

/// Whether the word is somewhere in the text, not as a part of a longer one.
const fn says(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let mut from = 0;
    while from + word.len() <= text.len() {
        let mut n = 0;
        while n < word.len() && text[from + n] == word[n] {
            n += 1;
        }
        let starts = from == 0 || !is_letter(text[from - 1]);
        let ends = from + word.len() == text.len() || !is_letter(text[from + word.len()]);
        if n == word.len() && starts && ends {
            return true;
        }
        from += 1;
    }
    false
}

const fn is_letter(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 128
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn field(name: &'static str, shape: &'static str, require: Option<&'static str>) -> FieldDesc {
        let ty = FieldType::Scalar(Elem::I32);
        FieldDesc { name, doc: "", ty, shape, default: None, require, monotone: false }
    }

    #[test]
    fn a_parameter_is_read_by_hooks_shapes_and_conditions() {
        let fields = [field("n", "", None), field("max_n", "", None), field("table", "2 * max_n + 1", None)];
        const NONE: usize = usize::MAX;
        assert_eq!(unread(&fields, &["table", "n"], 0), NONE);
        assert_eq!(unread(&fields, &["table"], 0), 0, "`max_n` is another word");
        assert_eq!(unread(&fields, &["table"], 1), NONE);
        assert_eq!([0, 1, 2].map(|nth| unread(&fields, &[], nth)), [0, 2, NONE]);
        assert_eq!(unread(&[field("n", "", Some("n > 0"))], &[], 0), NONE);
        assert_eq!(unread(&[], &[], 0), NONE);
        let ty = FieldType::Tensor { elem: Elem::F32, rank: 1 };
        let table = FieldDesc { ty, default: Some("by_distance"), ..field("table", "", None) };
        assert_eq!(unread(&[field("n", "", None), table], &["table"], 0), NONE);
    }

    #[test]
    fn a_divisor_is_kept_from_zero_by_a_condition() {
        let fields = [field("n", "", None), field("m", "", Some("m > 0")), field("k", "", Some("n + k > 0"))];
        assert!(!may_be_zero(&fields, "n"), "a condition speaks of it");
        assert!(!may_be_zero(&fields, "m"));
        assert!(may_be_zero(&fields[..1], "n"));
        assert!(!may_be_zero(&[FieldDesc { ty: FieldType::Scalar(Elem::F32), ..fields[0] }], "n"));
    }
}
