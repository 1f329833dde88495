//! The proc macros of attn-rs, which only call `attn-codegen`: an ordinary crate that tests can call too.

use proc_macro::TokenStream;

/// Makes a variant of an `impl AttentionVariant for X`. The impl is kept and runs on the CPU; the macro adds its hooks
/// as CUDA text, a descriptor, and a registration by name.
///
/// `#[attention_variant(name = "soft_cap")]` gives the name; by default it is the type's in `snake_case`.
/// `#[attention_variant(name = "windowed", instances(4, 8))]` on an impl that is generic over a constant makes
/// `windowed_4` and `windowed_8`. With several constants an instance is a tuple, `instances((4, true))`.
#[proc_macro_attribute]
pub fn attention_variant(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::variant::expand(attr.into(), item.into()).into()
}

/// Makes a KV format of an `impl KvFormat for X`: how rows of keys or values are stored. The impl is kept and runs on
/// the CPU; the macro adds `encode` and `decode` as CUDA text, a descriptor, and a registration by name.
///
/// The arguments are those of [`macro@attention_variant`]: `#[kv_format(name = "int4")]`, and `instances(..)` of an
/// impl that is generic over a constant.
#[proc_macro_attribute]
pub fn kv_format(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::kv_format::expand(attr.into(), item.into()).into()
}

/// Makes a helper function that hooks can call, on the CPU and in CUDA.
///
/// The attribute puts a module of the same name beside the function; a `use` of the function imports both.
#[proc_macro_attribute]
pub fn device_fn(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::device_fn::expand(attr.into(), item.into()).into()
}

/// Makes a CUDA header of an inline module of attn-rs. What the host and the kernels both compute is so written once,
/// in Rust.
///
/// The module is kept, with its text as the constant `CUDA`. No promise of stability: helpers of a variant are written
/// with `#[device_fn]`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn device_mod(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::device_mod::expand(attr.into(), item.into()).into()
}

/// Makes a struct or a fieldless enum available to hooks and helpers, on the CPU and in CUDA.
///
/// Fields of a struct are f32, i32, u32, u8, u64, bool, arrays and tuples of them, and other types with
/// `#[device_type]`; a tuple struct has one to four. The type is `Copy`, and not generic. Hooks can use struct
/// literals, fields, updates (`Line { bias: 0.0, ..line }`) and patterns, and of an enum its variants, `match`, `==`,
/// and casts to integers.
#[proc_macro_attribute]
pub fn device_type(attr: TokenStream, item: TokenStream) -> TokenStream {
    attn_codegen::device_type::expand(attr.into(), item.into()).into()
}

/// Makes the fields of a variant its parameters. Field attributes: `#[default(..)]`, `#[shape(..)]`, `#[require(..)]`,
/// `#[monotone]`, `#[mutable]`.
#[proc_macro_derive(VariantParams, attributes(default, shape, require, monotone, mutable))]
pub fn variant_params(input: TokenStream) -> TokenStream {
    attn_codegen::params::derive(input.into()).into()
}

/// Gives a struct that the host passes to kernels of attn-rs its CUDA definition. No promise of stability.
#[doc(hidden)]
#[proc_macro_derive(CudaStruct, attributes(cuda))]
pub fn cuda_struct(input: TokenStream) -> TokenStream {
    attn_codegen::cuda_struct::derive(input.into()).into()
}

/// Composes variants, in order, into one `Variant`: `compose!(Causal, SoftCap { cap: 30.0 })`. Each part is an
/// expression.
///
/// Combinators: `or(a, b)`, `not(a)`, `remap(map, a)`, `per_head([0, 0, 1, 1], a, b)` and `union(a, b)`, with `+`
/// between parts of an operand:
/// `compose!(or(Causal + SlidingWindow { window: 9 }, PrefixLm { prefix }), SoftCap { cap: 30.0 })`.
///
/// A conflict is a compile error at the part that causes it: two parts that change the normaliser, a sink beside plain
/// weights, anything but a mask under `or`.
#[proc_macro]
pub fn compose(input: TokenStream) -> TokenStream {
    attn_codegen::compose::expand(input.into()).into()
}
