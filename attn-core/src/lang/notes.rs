//! Warnings that need the fields of a variant and its hooks. No macro sees both; constants that the macros write do, and
//! which of two constants they name decides whether rustc warns.

use super::{FieldDesc, FieldType, desc::Elem};

/// A parameter that changes nothing.
#[derive(Debug)]
pub struct ParameterReadByNoHook<const FOUND: bool>;

impl ParameterReadByNoHook<false> {
    /// There is none.
    pub const NOTE: () = ();
}
impl ParameterReadByNoHook<true> {
    /// There is one.
    #[deprecated(note = "a parameter of this variant is read by no hook, and by no shape, default or condition: \
                         changing it would change nothing")]
    pub const NOTE: () = ();
}

/// A divisor that nothing keeps from being 0.
#[derive(Debug)]
pub struct DivisionByZero<const POSSIBLE: bool>;

impl DivisionByZero<false> {
    /// It cannot be.
    pub const NOTE: () = ();
}
impl DivisionByZero<true> {
    /// It may be.
    #[deprecated(
        note = "this parameter may be 0, where Rust panics and the GPU gives 0: write a condition on the field, \
                         as in `#[require(n > 0)]`, or compare it first"
    )]
    pub const NOTE: () = ();
}

/// Whether a parameter is missing in `read`, and in every shape, default and condition.
#[must_use]
pub const fn has_unread(fields: &[FieldDesc], read: &[&str]) -> bool {
    let mut i = 0;
    while i < fields.len() {
        // the default of a tensor is a function of all parameters
        if matches!(fields[i].ty, FieldType::Tensor { .. }) && fields[i].default.is_some() {
            return false;
        }
        i += 1;
    }
    let mut i = 0;
    while i < fields.len() {
        let name = fields[i].name;
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
        if !found {
            return true;
        }
        i += 1;
    }
    false
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
        assert!(!has_unread(&fields, &["table", "n"]));
        assert!(has_unread(&fields, &["table"]), "`max_n` is another word");
        assert!(!has_unread(&[field("n", "", Some("n > 0"))], &[]));
        assert!(!has_unread(&[], &[]));
        let ty = FieldType::Tensor { elem: Elem::F32, rank: 1 };
        let table = FieldDesc { ty, default: Some("by_distance"), ..field("table", "", None) };
        assert!(!has_unread(&[field("n", "", None), table], &["table"]));
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
