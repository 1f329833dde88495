//! The error messages of the derive.

use crate::budget::FIELDS;

pub(super) const NOT_A_STRUCT: &str = "a variant is a struct with named fields, or without fields";
pub(super) const UNNAMED: &str = "give the fields names: parameters are set by name";
pub(super) const NAME: &str = "a parameter's name is in ASCII: expressions give it by name";
pub(super) const TYPE: &str = "a parameter is an f32, i32, u32 or bool, a `Tensor0` to `Tensor4` of f32, f16, bf16, \
     F8E4M3, F8E5M2, i32, u32, u8, bool or Bits, or an `OutTensor1` to `OutTensor4`";
pub(super) const TWICE: &str = "this attribute is given twice";
pub(super) const DEFAULT: &str = "write `#[default(value)]`, for a tensor `#[default(|p: &Self, dims: &Dims| values)]`";
pub(super) const REQUIRE: &str = "write a condition over the fields: `#[require(cap > 0.0)]`";
pub(super) const SHAPE: &str = "write the extents: `#[shape(qo_heads, 2 * max_distance + 1)]`";
pub(super) const SHAPE_MISSING: &str = "a tensor parameter needs its extents: `#[shape(qo_heads)]`, over qo_heads, \
     kv_heads, head_dim, value_dim, batch, qo_tokens, kv_tokens, and integer fields";
pub(super) const SHAPE_ON_SCALAR: &str =
    "only a tensor has a shape: write the field's type as `Tensor1<f32>` or `Tensor2<f32>`";
pub(super) const MONOTONE: &str =
    "write `#[monotone]` alone: no value is less than the one before it along the last axis";
pub(super) const MONOTONE_ON: &str =
    "only a parameter tensor of rank 1 to 4 is monotone: it is read in order along its last axis";
pub(super) const MUTABLE: &str = "write `#[mutable]` alone: the values of the tensor change while plans live on";
pub(super) const MUTABLE_ON: &str = "only a parameter tensor is mutable; an output tensor always is";
pub(super) const MUTABLE_MONOTONE: &str =
    "a tensor is `#[monotone]` or `#[mutable]`: plans rely on the order of values, and nothing checks new ones";
pub(super) const SHAPE_OP: &str = "a shape is integer arithmetic (`+ - * / %`), comparisons, and `if`/`else`";
pub(super) const SHAPE_LITERAL: &str = "a shape is written in whole numbers without suffix";
pub(super) const SHAPE_BLOCK: &str = "a branch of a shape is one expression";

pub(super) fn too_many(fields: usize) -> String {
    format!(
        "a variant has at most {FIELDS} parameters; this one has {fields}: put numbers of one kind into a parameter \
         tensor"
    )
}

pub(super) fn rank(name: &str, want: usize, got: usize) -> String {
    let extents = match want {
        0 => "no extents: leave the shape away".to_owned(),
        1 => format!("1 extent, this shape has {got}"),
        _ => format!("{want} extents, this shape has {got}"),
    };
    format!("`{name}` has {extents}")
}

pub(super) fn unknown_word(word: &str, nearest: Option<&str>) -> String {
    let hint = nearest.map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default();
    format!(
        "a shape does not know `{word}`{hint}: use qo_heads, kv_heads, head_dim, value_dim, batch, qo_tokens, \
         kv_tokens, or an integer field"
    )
}

pub(super) fn not_an_integer(word: &str) -> String {
    format!("`{word}` is no integer: shapes are over i32, u32 and bool fields")
}

/// A warning about a field `{name}`.
pub(super) const UNREAD: &str =
    "no hook reads the parameter `{name}`, and no shape, default or condition does: changing it would change nothing";
