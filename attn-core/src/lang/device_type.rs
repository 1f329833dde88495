//! Structs and enums of users in kernels.
//!
//! `#[attention_variant]` and `#[device_fn]` see neither the fields of a struct nor the variants of an enum. Their text
//! refers to a type by path, through [`DeviceType`], which `#[device_type]` implements.

/// A struct of numbers, or an enum without fields, that hooks and helpers may use. `#[device_type]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to kernels",
    label = "kernels have to know this type",
    note = "put `#[device_type]` on `{Self}`, where it is defined: a struct of numbers, or an enum without fields",
    note = "of another name of a number (`type Scalar = f32`), write the number's own"
)]
pub trait DeviceType: Sized {
    /// Its descriptor.
    const DESC: &'static TypeDesc;
}

/// A [`DeviceType`] that is an enum.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` are compared in a hook",
    label = "compare the fields one by one",
    note = "numbers, bools and enums without fields can be compared"
)]
pub trait DeviceEnum: DeviceType {}

/// The descriptor of a [`DeviceType`].
#[derive(Debug, PartialEq, Eq)]
pub struct TypeDesc {
    /// Its name in the text.
    pub name: &'static str,
    /// Its definition with `#line` directives; of an enum the part before the braces.
    pub cuda: &'static str,
    /// The name and the value of each variant of an enum.
    pub variants: &'static [(&'static str, i32)],
    /// The types that it contains.
    pub types: &'static [TypeLink],
}

/// A type and its name in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeLink {
    /// The name; `use .. as ..` may make it differ from the type's own.
    pub name: &'static str,
    /// The type.
    pub ty: &'static TypeDesc,
}

/// Asserts that values of the type can be compared.
#[doc(hidden)]
pub const fn compared<T: DeviceEnum>() {}

/// Asserts that values of the type can be copied.
#[doc(hidden)]
pub const fn values_are_copied<T: Copy>() {}

/// The value of an enum's variant.
///
/// # Panics
/// At compile time, if it does not fit an i32.
#[doc(hidden)]
#[must_use]
pub const fn value(of: i128) -> i32 {
    assert!(i32::MIN as i128 <= of && of <= i32::MAX as i128, "the values of an enum in a hook fit an i32");
    of as i32
}
