//! The member functions of a variant's structs: their signatures, and the structs that need each of them.

use attn_core::lang::Hook;

use super::shape::Shape;

/// A member function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberFunction {
    /// A hook.
    Hook(Hook),
    /// The class of a tile under the mask.
    TileClass,
    /// The visible keys of a row, if they are an interval.
    KvBounds,
    /// The term that is added to a logit, if the transform only adds.
    LogitsBias,
    /// The difference of the bias between adjacent keys, if the bias is affine in the key position.
    LogitsSlope,
    /// The start of the parameter tensor row that is added to the logits of a row.
    LogitsBiasRow,
    /// An upper bound of transformed logits.
    LogitsBound,
}

/// Every member function, in the order of the text.
pub(super) const ORDER: &[MemberFunction] = &[
    MemberFunction::KvBounds,
    MemberFunction::Hook(Hook::KvListLen),
    MemberFunction::Hook(Hook::KvListBlock),
    MemberFunction::Hook(Hook::QueryTransform),
    MemberFunction::Hook(Hook::KeyTransform),
    MemberFunction::Hook(Hook::ValueTransform),
    MemberFunction::Hook(Hook::LogitsTransform),
    MemberFunction::LogitsBias,
    MemberFunction::LogitsSlope,
    MemberFunction::LogitsBiasRow,
    MemberFunction::LogitsBound,
    MemberFunction::Hook(Hook::LogitsMask),
    MemberFunction::Hook(Hook::Weight),
    MemberFunction::Hook(Hook::Denominator),
    MemberFunction::Hook(Hook::SinkLogit),
    MemberFunction::Hook(Hook::OutputTransform),
    MemberFunction::Hook(Hook::KvRange),
    MemberFunction::TileClass,
];

impl MemberFunction {
    /// Whether the struct of a shape needs this function. `struct Variant` has all of them.
    pub(super) fn is_in(self, shape: &Shape<'_>) -> bool {
        match self {
            MemberFunction::Hook(hook) => shape.has(hook),
            MemberFunction::TileClass => shape.has(Hook::LogitsMask) || shape.has(Hook::KvRange),
            MemberFunction::KvBounds => shape.has(Hook::LogitsMask) && shape.has_bounds(),
            MemberFunction::LogitsBias => shape.has(Hook::LogitsTransform) && shape.adds_to_logits(),
            MemberFunction::LogitsSlope => {
                shape.has(Hook::LogitsTransform) && shape.adds_to_logits() && shape.is_affine()
            }
            MemberFunction::LogitsBiasRow => shape.adds_rows(),
            MemberFunction::LogitsBound => shape.is_bounded(),
        }
    }

    fn head(self) -> &'static str {
        match self {
            MemberFunction::KvBounds => "ATTN_FN Bounds kv_bounds(const RowIndex& at) const",
            MemberFunction::TileClass => "ATTN_FN TileClass tile_class(Tile tile) const",
            MemberFunction::LogitsBias => "ATTN_FN auto logits_bias(LogitIndex at) const",
            MemberFunction::LogitsSlope => "ATTN_FN float logits_slope(LogitIndex at) const",
            MemberFunction::LogitsBiasRow => "ATTN_FN auto logits_bias_row(LogitIndex at) const",
            MemberFunction::LogitsBound => "ATTN_FN float logits_bound() const",
            MemberFunction::Hook(hook) => match hook {
                Hook::QueryTransform => "template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const",
                Hook::KeyTransform => "template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const",
                Hook::ValueTransform => "template <class R> ATTN_FN void value_transform(R& v, KvIndex at) const",
                Hook::LogitsTransform => "ATTN_FN float logits_transform(Logit logit, LogitIndex at) const",
                Hook::LogitsMask => "ATTN_FN bool logits_mask(LogitIndex at) const",
                Hook::Weight => "ATTN_FN float weight(float logit, float row_max, LogitIndex at) const",
                Hook::Denominator => {
                    "ATTN_FN float denominator(float logit, float row_max, float weight, LogitIndex at) const"
                }
                Hook::SinkLogit => "ATTN_FN float sink_logit(RowIndex at) const",
                Hook::OutputTransform => {
                    "template <class R> ATTN_FN void output_transform(R& o, RowState state, RowIndex at) const"
                }
                Hook::KvRange => "ATTN_FN Tuple2<int, int> kv_range(QueryTile tile) const",
                Hook::KvListLen => "ATTN_FN int kv_list_len(RowIndex at) const",
                Hook::KvListBlock => "ATTN_FN int kv_list_block(RowIndex at, int n) const",
                _ => "",
            },
        }
    }

    /// The call with the names of the head; `mapped` arguments go through the helpers of `remap`.
    pub(super) fn call(self, mapped: bool) -> String {
        let (head, arguments) = self.head().split_once('(').unwrap_or_default();
        let name = head.rsplit(' ').next().unwrap_or_default();
        let arguments = arguments.trim_end_matches(") const").split(", ");
        let arguments = arguments.map(|argument| match argument.rsplit_once(' ').unwrap_or_default() {
            ("RowIndex", at) if mapped => format!("row_at({at})"),
            ("KvIndex", at) if mapped => format!("key_at({at})"),
            ("LogitIndex", at) if mapped => format!("logit_at({at})"),
            (_, name) => name.to_owned(),
        });
        format!("{name}({})", arguments.collect::<Vec<_>>().join(", "))
    }

    /// The result if no part writes the hook; empty for hooks that change a row.
    pub(super) fn trivial(self) -> &'static str {
        match self {
            MemberFunction::KvBounds => "Bounds{0, 2147483647}",
            MemberFunction::TileClass => "TileClass::Full",
            MemberFunction::LogitsBias | MemberFunction::LogitsSlope | MemberFunction::LogitsBiasRow => "0.0f",
            MemberFunction::LogitsBound => "F32_INFINITY",
            MemberFunction::Hook(hook) => match hook {
                Hook::LogitsTransform => "float(logit)",
                Hook::LogitsMask => "true",
                Hook::Weight => "exp(logit - row_max)",
                Hook::Denominator => "weight",
                Hook::SinkLogit => "-F32_INFINITY",
                Hook::KvRange => "Tuple2<int, int>{0, 2147483647}",
                Hook::KvListLen => "0",
                Hook::KvListBlock => "n",
                _ => "",
            },
        }
    }
}

/// A member function with a body that consists of whole lines.
pub(super) fn function(member: MemberFunction, body: &str) -> String {
    let head = member.head();
    if body.is_empty() { format!("  {head} {{}}\n") } else { format!("  {head} {{\n{body}  }}\n") }
}

/// The same as a function that is not inlined. A row hook is a template: the functions that it passes to the row are
/// called instead.
pub(super) fn called(member: MemberFunction, body: &str) -> String {
    let text = function(member, body);
    match member.head().split_once("(R& ") {
        Some((_, rest)) => {
            let row = &rest[..1];
            let wrapped = format!(" {{\n    CalledRow<R> called{{{row}}};\n");
            text.replacen(" {\n", &wrapped, 1).replace(&format!("({row}, "), "(called, ")
        }
        None => text.replacen("ATTN_FN", "ATTN_CALL", 1),
    }
}
