//! Structs and enums of a user's, as kernels know them.
//!
//! `#[attention_variant]` and `#[device_fn]` see neither the fields of a struct nor the variants of an enum: what they write of
//! a type goes by its path, through [`DeviceType`], which `#[device_type]` implements.

/// A struct of numbers, or an enum without fields, that hooks and helpers may use: `#[device_type]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to kernels",
    label = "kernels have to know this type",
    note = "put `#[device_type]` on `{Self}`, where it is defined: a struct of numbers, or an enum without fields",
    note = "of another name of a number (`type Scalar = f32`), write the number's own"
)]
pub trait DeviceType: Sized {
    /// What kernels know of it.
    const DESC: &'static TypeDesc;
}

/// A [`DeviceType`] that is an enum.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` are compared in a hook",
    label = "compare the fields one by one",
    note = "numbers, bools and enums without fields can be compared"
)]
pub trait DeviceEnum: DeviceType {}

/// What kernels know of a type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeDesc {
    /// Its name in the text.
    pub name: &'static str,
    /// Its definition, of an enum without what is in its braces; `#line` directives inside.
    pub cuda: &'static str,
    /// Of an enum, each variant's name in the text, and its value.
    pub variants: &'static [(&'static str, i32)],
    /// The types that it is made of.
    pub types: &'static [TypeLink],
}

/// A type, under the name that a text gives it.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeLink {
    /// The name: another than the type's own after `use .. as ..`.
    pub name: &'static str,
    /// The type.
    pub ty: &'static TypeDesc,
}

/// Values of a type are compared.
#[doc(hidden)]
pub const fn compared<T: DeviceEnum>() {}

/// Values of a type in a hook are copied.
#[doc(hidden)]
pub const fn values_are_copied<T: Copy>() {}

/// The value of a variant.
///
/// # Panics
/// While compiling: it does not fit an i32.
#[doc(hidden)]
#[must_use]
pub const fn value(of: i128) -> i32 {
    assert!(i32::MIN as i128 <= of && of <= i32::MAX as i128, "the values of an enum in a hook fit an i32");
    of as i32
}
