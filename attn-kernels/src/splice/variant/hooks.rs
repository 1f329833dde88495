//! The member functions of a composition's structs: their heads, and which struct has which.

use attn_core::lang::Hook;

use super::shape::Shape;

/// A member function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// A hook of the language.
    Hook(Hook),
    /// What is known of a tile.
    TileClass,
    /// The keys of a row, where they are an interval.
    KvBounds,
    /// What is added to a logit, where it is not changed otherwise.
    LogitsBias,
    /// By how much that grows from a key to the next, where it is affine in the key.
    LogitsSlope,
    /// Where the elements that are added to the logits of a row begin.
    LogitsBiasRow,
    /// How large a transformed logit can be.
    LogitsBound,
}

/// Every member function, in the order of the text.
pub(super) const ORDER: &[Member] = &[
    Member::KvBounds,
    Member::Hook(Hook::KvListLen),
    Member::Hook(Hook::KvListBlock),
    Member::Hook(Hook::QueryTransform),
    Member::Hook(Hook::KeyTransform),
    Member::Hook(Hook::ValueTransform),
    Member::Hook(Hook::LogitsTransform),
    Member::LogitsBias,
    Member::LogitsSlope,
    Member::LogitsBiasRow,
    Member::LogitsBound,
    Member::Hook(Hook::LogitsMask),
    Member::Hook(Hook::Weight),
    Member::Hook(Hook::Denominator),
    Member::Hook(Hook::SinkLogit),
    Member::Hook(Hook::OutputTransform),
    Member::Hook(Hook::KvRange),
    Member::TileClass,
];

impl Member {
    /// Whether the struct of a shape needs it. (`struct Variant` has them all.)
    pub(super) fn is_in(self, shape: &Shape<'_>) -> bool {
        match self {
            Member::Hook(hook) => shape.has(hook),
            Member::TileClass => shape.has(Hook::LogitsMask) || shape.has(Hook::KvRange),
            Member::KvBounds => shape.has(Hook::LogitsMask) && shape.has_bounds(),
            Member::LogitsBias => shape.has(Hook::LogitsTransform) && shape.adds_to_logits(),
            Member::LogitsSlope => shape.has(Hook::LogitsTransform) && shape.adds_to_logits() && shape.is_affine(),
            Member::LogitsBiasRow => shape.adds_rows(),
            Member::LogitsBound => shape.is_bounded(),
        }
    }

    fn head(self) -> &'static str {
        match self {
            Member::KvBounds => "ATTN_FN Bounds kv_bounds(const RowIndex& at) const",
            Member::TileClass => "ATTN_FN TileClass tile_class(Tile tile) const",
            Member::LogitsBias => "ATTN_FN auto logits_bias(LogitIndex at) const",
            Member::LogitsSlope => "ATTN_FN float logits_slope(LogitIndex at) const",
            Member::LogitsBiasRow => "ATTN_FN auto logits_bias_row(LogitIndex at) const",
            Member::LogitsBound => "ATTN_FN float logits_bound() const",
            Member::Hook(hook) => match hook {
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

    /// How it is called: name and arguments, those that `remap` changes as its helpers make them.
    pub(super) fn call(self, mapped: bool) -> &'static str {
        match (self, mapped) {
            (Member::KvBounds, _) => "kv_bounds(at)",
            (Member::TileClass, _) => "tile_class(tile)",
            (Member::LogitsBias, false) => "logits_bias(at)",
            (Member::LogitsBias, true) => "logits_bias(logit_at(at))",
            (Member::LogitsSlope, _) => "logits_slope(at)",
            (Member::LogitsBiasRow, _) => "logits_bias_row(at)",
            (Member::LogitsBound, _) => "logits_bound()",
            (Member::Hook(hook), false) => match hook {
                Hook::QueryTransform => "query_transform(q, at)",
                Hook::KeyTransform => "key_transform(k, at)",
                Hook::ValueTransform => "value_transform(v, at)",
                Hook::LogitsTransform => "logits_transform(logit, at)",
                Hook::LogitsMask => "logits_mask(at)",
                Hook::Weight => "weight(logit, row_max, at)",
                Hook::Denominator => "denominator(logit, row_max, weight, at)",
                Hook::SinkLogit => "sink_logit(at)",
                Hook::OutputTransform => "output_transform(o, state, at)",
                Hook::KvRange => "kv_range(tile)",
                Hook::KvListLen => "kv_list_len(at)",
                Hook::KvListBlock => "kv_list_block(at, n)",
                _ => "",
            },
            (Member::Hook(hook), true) => match hook {
                Hook::QueryTransform => "query_transform(q, row_at(at))",
                Hook::KeyTransform => "key_transform(k, key_at(at))",
                Hook::ValueTransform => "value_transform(v, key_at(at))",
                Hook::LogitsTransform => "logits_transform(logit, logit_at(at))",
                Hook::LogitsMask => "logits_mask(logit_at(at))",
                Hook::Weight => "weight(logit, row_max, logit_at(at))",
                Hook::Denominator => "denominator(logit, row_max, weight, logit_at(at))",
                Hook::SinkLogit => "sink_logit(row_at(at))",
                Hook::OutputTransform => "output_transform(o, state, row_at(at))",
                _ => "",
            },
        }
    }

    /// What it gives where nobody wrote it; nothing, of what changes a row.
    pub(super) fn trivial(self) -> &'static str {
        match self {
            Member::KvBounds => "Bounds{0, 2147483647}",
            Member::TileClass => "TileClass::Full",
            Member::LogitsBias | Member::LogitsSlope | Member::LogitsBiasRow => "0.0f",
            Member::LogitsBound => "F32_INFINITY",
            Member::Hook(hook) => match hook {
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

/// `tile_class` as a function that is called: it is long where it asks tables, and kernels ask it at several places, but seldom.
/// In line it was up to half of what a kernel takes to compile.
pub(super) fn class_called(body: &str) -> String {
    format!("  ATTN_CALL TileClass tile_class(Tile tile) const {{\n{body}  }}\n")
}

/// A member function with its body, of whole lines.
pub(super) fn function(member: Member, body: &str) -> String {
    let head = member.head();
    if body.is_empty() { format!("  {head} {{}}\n") } else { format!("  {head} {{\n{body}  }}\n") }
}
