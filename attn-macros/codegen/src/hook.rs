//! The hooks: names, arguments and results of the trait's methods.

use crate::types::Ty;

/// Names of the hooks, in the order of the trait.
pub const NAMES: &[&str] = &[
    "query_transform",
    "key_transform",
    "value_transform",
    "logits_transform",
    "logits_mask",
    "weight",
    "denominator",
    "sink_logit",
    "output_transform",
    "kv_range",
    "kv_list_len",
    "kv_list_block",
    "kv_list_block_size",
    "kv_list_queries",
    "remap_qo_pos",
    "remap_kv_pos",
];

/// The hooks that may store to an `OutTensor`: each runs once for every logit or row that is visited.
pub const STORING: &[&str] = &["logits_transform", "weight", "denominator", "sink_logit", "output_transform"];

/// Argument types of a hook, after `self`.
pub fn args(name: &str) -> Vec<Ty> {
    match name {
        "query_transform" => vec![Ty::Row, Ty::RowIndex],
        "key_transform" | "value_transform" => vec![Ty::Row, Ty::KvIndex],
        "logits_transform" => vec![Ty::F32, Ty::LogitIndex],
        "logits_mask" => vec![Ty::LogitIndex],
        "weight" => vec![Ty::F32, Ty::F32, Ty::LogitIndex],
        "denominator" => vec![Ty::F32, Ty::F32, Ty::F32, Ty::LogitIndex],
        "sink_logit" => vec![Ty::RowIndex],
        "output_transform" => vec![Ty::Row, Ty::RowState, Ty::RowIndex],
        "kv_range" => vec![Ty::QueryTile],
        "kv_list_len" | "remap_qo_pos" => vec![Ty::RowIndex],
        "kv_list_block" => vec![Ty::RowIndex, Ty::I32],
        "remap_kv_pos" => vec![Ty::KvIndex],
        _ => Vec::new(),
    }
}

/// The result of a hook that gives a number or a bool.
pub fn result(name: &str) -> Option<Ty> {
    match name {
        "logits_mask" => Some(Ty::Bool),
        "logits_transform" | "weight" | "denominator" | "sink_logit" => Some(Ty::F32),
        "kv_list_len" | "kv_list_block" | "kv_list_block_size" | "kv_list_queries" | "remap_qo_pos"
        | "remap_kv_pos" => Some(Ty::I32),
        _ => None,
    }
}

const ROW: &[&str] = &["batch", "qo_row", "qo_pos", "qo_token", "qo_head", "kv_head", "qo_len", "kv_len"];
pub(crate) const LOGIT: &[&str] = &[
    "batch", "qo_row", "qo_pos", "qo_token", "qo_head", "kv_head", "qo_len", "kv_len", "kv_pos", "kv_token", "kv_slot",
];
const KV: &[&str] = &["batch", "kv_pos", "kv_token", "kv_head", "kv_len"];
const QUERY_TILE: &[&str] = &[
    "batch",
    "qo_row_min",
    "qo_row_max",
    "qo_pos_min",
    "qo_pos_max",
    "qo_token_min",
    "qo_token_max",
    "qo_head_min",
    "qo_head_max",
    "kv_head_min",
    "kv_head_max",
    "qo_len",
    "kv_len",
];
const STATE: &[&str] = &["row_max", "denominator", "lse"];

/// Formats names as `a`, `b`, `c`.
pub fn listed(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The coordinates (or fields) of an index type, and their type.
pub fn coordinates(ty: &Ty) -> Option<(&'static [&'static str], Ty)> {
    match ty {
        Ty::RowIndex => Some((ROW, Ty::I32)),
        Ty::LogitIndex => Some((LOGIT, Ty::I32)),
        Ty::KvIndex => Some((KV, Ty::I32)),
        Ty::QueryTile => Some((QUERY_TILE, Ty::I32)),
        Ty::RowState => Some((STATE, Ty::F32)),
        _ => None,
    }
}
