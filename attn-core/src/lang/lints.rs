//! Compile-time checks that need the output of two macros. The macros emit names that have two possible definitions.
//! rustc accepts, warns about or refuses the code depending on the definition that a name resolves to.

pub mod spaces;
mod words;

use words::{is_letter, same};

use std::marker::PhantomData;

use super::{AttentionVariant, DeviceFn, FieldDesc, FieldType, Normalizer, VariantParams, desc::Elem};

/// Warnings about unread parameters. The derive, which knows the fields, writes one for each; `#[attention_variant]`,
/// which knows what the hooks read, selects among them.
#[doc(hidden)]
pub trait UnreadLints {
    /// The number of a field.
    type Unread<const FIELD: usize>;
}

/// The field of a number.
#[doc(hidden)]
pub trait Numbered {
    /// Its method `is_not_read` is deprecated if there is a field of this number.
    type Field;
    /// Its only value.
    const FIELD: Self::Field;
}

/// What the derive wrote for a variant. Without the derive the trait [`NotDerived`] answers instead, so that rustc
/// reports the missing derive once, at the impl of `AttentionVariant`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Derived<V>(PhantomData<V>);

impl<V: VariantParams> Derived<V> {
    /// The parameters.
    pub const FIELDS: &'static [FieldDesc] = V::FIELDS;
    /// The doc comment of the struct.
    pub const DOC: &'static str = V::DOC;
}

impl<V: AttentionVariant + VariantParams> Derived<V> {
    /// The normaliser.
    pub const NORMALIZER: Normalizer = V::NORMALIZER;
    /// `MAX_FLOOR`.
    pub const MAX_FLOOR: f32 = V::MAX_FLOOR;
}

impl<V: UnreadLints> Derived<V> {
    /// The field of this number.
    pub fn field<const FIELD: usize>() -> <V::Unread<FIELD> as Numbered>::Field
    where
        V::Unread<FIELD>: Numbered,
    {
        <V::Unread<FIELD> as Numbered>::FIELD
    }
}

/// The answers for a struct without `#[derive(VariantParams)]`.
#[doc(hidden)]
pub trait NotDerived {
    /// No parameters.
    const FIELDS: &'static [FieldDesc] = &[];
    /// No doc comment.
    const DOC: &'static str = "";
    /// The default.
    const NORMALIZER: Normalizer = Normalizer::Softmax;
    /// None.
    const MAX_FLOOR: f32 = f32::NEG_INFINITY;
    /// A field that is read.
    fn field<const FIELD: usize>() -> IsRead {
        IsRead
    }
}
impl<V> NotDerived for Derived<V> {}

/// A field about which there is nothing to say.
#[doc(hidden)]
#[derive(Debug)]
pub struct IsRead;

impl IsRead {
    /// No warning.
    pub const fn is_not_read(&self) {}
}

/// Marks a function with `#[device_fn]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithDeviceFn;

/// Marks a function without `#[device_fn]`.
#[doc(hidden)]
#[derive(Debug)]
pub struct WithoutDeviceFn;

/// Implemented for functions with `#[device_fn]`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a hook calls this function, which is not marked with `#[device_fn]`",
    label = "put `#[device_fn]` on this function, where it is defined",
    note = "a hook runs on the GPU too, so the functions that it calls have to be known there"
)]
pub trait IsDeviceFn {}
impl IsDeviceFn for WithDeviceFn {}

/// Requires that a function has `#[device_fn]`.
#[doc(hidden)]
pub const fn marked<M: IsDeviceFn>(helper: &'static DeviceFn) -> &'static DeviceFn {
    helper
}

/// The most calls that [`not_recursive`] follows.
const MOST_CALLS: usize = 10_000;

/// Stops the evaluation of a constant with a message, at the place that calls this, if a helper calls itself through
/// others.
#[track_caller]
pub const fn not_recursive(helper: &DeviceFn, message: &str) {
    let mut left = MOST_CALLS;
    if calls(helper, helper, 64, &mut left) {
        panic!("{}", message);
    }
}

/// Whether `from` calls `to`, directly or through at most `depth` others.
const fn calls(from: &DeviceFn, to: &DeviceFn, depth: usize, left: &mut usize) -> bool {
    let mut n = 0;
    while n < from.device_fns.len() && *left > 0 {
        *left -= 1;
        let next = from.device_fns[n];
        // helpers of one name may stand in several modules; their texts name their places
        if same(next.name.as_bytes(), to.name.as_bytes()) && same(next.cuda.as_bytes(), to.cuda.as_bytes()) {
            return true;
        }
        if depth > 0 && calls(next, to, depth - 1, left) {
            return true;
        }
        n += 1;
    }
    false
}

/// Stops the evaluation of a constant with a message, at the place that calls this, if a helper of a KV format calls a
/// function whose last bits differ between devices, directly or through others.
#[track_caller]
pub const fn exact(helper: &DeviceFn, message: &str) {
    let mut left = MOST_CALLS;
    if is_inexact(helper, 64, &mut left) {
        panic!("{}", message);
    }
}

const fn is_inexact(of: &DeviceFn, depth: usize, left: &mut usize) -> bool {
    if !of.inexact.is_empty() {
        return true;
    }
    let mut n = 0;
    while depth > 0 && n < of.device_fns.len() && *left > 0 {
        *left -= 1;
        if is_inexact(of.device_fns[n], depth - 1, left) {
            return true;
        }
        n += 1;
    }
    false
}

/// Glob-imported fallback for the module that `#[device_fn]` generates: `use f as __helper` resolves to the function's
/// own module if there is one, since it shadows a glob import.
#[doc(hidden)]
pub mod unmarked {
    /// Stands for the module of a helper.
    pub mod __helper {
        use crate::lang::DeviceFn;
        use crate::lang::interval::{Parts, Val};

        pub use crate::lang::lints::WithoutDeviceFn as DeviceFnMark;

        /// No name.
        pub const NAME: &str = "";

        /// An empty descriptor.
        pub static DEVICE_FN: DeviceFn =
            DeviceFn { name: "", cuda: "", exact: "", inexact: "", over: "", device_fns: &[], types: &[], consts: &[] };

        /// Nothing is known of indices.
        pub const SPACES: crate::lang::lints::spaces::Spaces = crate::lang::lints::spaces::Spaces::UNKNOWN;

        /// An unknown result.
        pub fn over<const N: usize>(_: [Val; N]) -> Val {
            Val::Any
        }

        /// [`over`] for values with parts.
        pub fn parts<const N: usize>(_: [Parts; N]) -> Parts {
            Parts::One(Val::Any)
        }
    }
}

/// The number of the `nth` parameter that neither `read` nor any shape, default or condition mentions; `usize::MAX` if
/// there is none.
pub const fn unread(fields: &[FieldDesc], read: &[&str], nth: usize) -> usize {
    let mut i = 0;
    while i < fields.len() {
        // the default of a tensor may read all parameters
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
        found |= mentions(field.shape, name) || mentioned(field.default, name) || mentioned(field.require, name);
        k += 1;
    }
    found
}

/// Whether an integer parameter may be zero: no `#[require]` mentions it.
pub const fn may_be_zero(fields: &[FieldDesc], name: &str) -> bool {
    let mut i = 0;
    let mut whole = false;
    while i < fields.len() {
        let field = &fields[i];
        if mentioned(field.require, name) {
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

const fn mentioned(text: Option<&str>, word: &str) -> bool {
    match text {
        Some(text) => mentions(text, word),
        None => false,
    }
}

/// Whether the text contains the word as a whole word.
const fn mentions(text: &str, word: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn field(name: &'static str, shape: &'static str, require: Option<&'static str>) -> FieldDesc {
        let ty = FieldType::Scalar(Elem::I32);
        FieldDesc { name, doc: "", ty, shape, default: None, require, monotone: false, mutable: false, growing_axes: 0 }
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
