//! The proc macros of attn-rs. Thin: everything happens in `attn-codegen`, an ordinary crate that tests can call.

use proc_macro::TokenStream;

/// Makes a variant of an `impl AttentionVariant for X`: the impl stays what it is and runs on the CPU; beside it
/// comes the same text as CUDA, a descriptor, and a registration by name.
///
/// `#[attention_variant(name = "soft_cap")]`; without a name it is the type's in `snake_case`.
/// `#[attention_variant(name = "windowed", instances(4, 8))]` on an impl that is generic over a constant makes
/// `windowed_4` and `windowed_8`; with several constants an instance is a tuple, `instances((4, true))`.
#[proc_macro_attribute]
pub fn attention_variant(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::variant::expand(attr.into(), item.into()).into()
}

/// Lets hooks call a helper function, on either side.
///
/// The attribute puts a module of the function's name beside it, which `use` brings along.
#[proc_macro_attribute]
pub fn device_fn(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::device_fn::expand(attr.into(), item.into()).into()
}

/// Lets hooks and helpers use a struct or a fieldless enum, on either side.
///
/// A struct has fields of f32, i32, u32, u8, u64, bool, arrays and tuples of them, and other types with `#[device_type]`; of a tuple
/// struct, one to four. The type is `Copy`, and not generic. Hooks then have its literals, its fields, updates
/// (`Line { bias: 0.0, ..line }`) and patterns; of an enum its variants, `match`, `==`, and casts to integers.
#[proc_macro_attribute]
pub fn device_type(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::device_type::expand(attr.into(), item.into()).into()
}

/// Makes parameters of the fields of a variant. Field attributes: `#[default(..)]`, `#[shape(..)]`, `#[require(..)]`, `#[monotone]`.
#[proc_macro_derive(VariantParams, attributes(default, shape, require, monotone))]
pub fn variant_params(input: TokenStream) -> TokenStream {
    attn_codegen::params::derive(input.into()).into()
}

/// Composes variants, in order, into one `Variant`: `compose!(Causal, SoftCap { cap: 30.0 })`. Each part is an expression.
///
/// Combinators: `or(a, b)`, `not(a)`, `remap(map, a)`, `per_head([0, 0, 1, 1], a, b)` and `union(a, b)`, with `+` between parts of an
/// operand: `compose!(or(Causal + SlidingWindow { window: 9 }, PrefixLm { prefix }), SoftCap { cap: 30.0 })`.
///
/// What does not go together does not compile, at the part that is wrong: two parts that change the normaliser, a sink
/// beside plain weights, something else than a mask under `or`.
#[proc_macro]
pub fn compose(input: TokenStream) -> TokenStream {
    attn_codegen::compose::expand(input.into()).into()
}
