//! `struct Variant`: the parts as members, flags, and every hook.

use attn_core::lang::{FieldType, Hook, Normalizer, VariantDesc};

use super::args::struct_size;

/// The text of `struct Variant`.
pub(super) fn struct_text(parts: &[&VariantDesc], names: &[String]) -> String {
    let mut text = String::from("struct Variant {\n");
    for (i, name) in names.iter().enumerate() {
        text += &format!("  {name} part{i};\n");
    }
    if !names.is_empty() {
        text.push('\n');
    }
    for (flag, value) in flags(parts) {
        text += &format!("  static constexpr bool {flag} = {value};\n");
    }
    let max_floor = parts.iter().filter(|p| p.normalizer == Normalizer::MaxScaled).map(|p| p.max_floor).next_back();
    text += &format!("  static constexpr float MAX_FLOOR = {};\n", max_floor.map_or("-F32_INFINITY".to_owned(), float));
    text += &kv_bounds(parts);
    text += &kv_list(parts);
    for hook in &Hook::ALL[..9] {
        text += &format!("\n{}", hook_text(*hook, parts));
    }
    text += &format!("\n  ATTN_FN TileClass tile_class(const Tile& tile) const {{\n{}  }}\n", tile_class(parts));
    text += "};\n";
    text += &format!("static_assert(sizeof(Variant) == {}, \"host and device agree\");\n", struct_size(parts));
    text
}

fn flags(parts: &[&VariantDesc]) -> Vec<(&'static str, bool)> {
    let has = |hook| parts.iter().any(|p| p.has(hook));
    let plain = |wanted: Option<bool>| {
        parts.iter().any(|p| match p.normalizer {
            Normalizer::Plain { divide } => wanted.is_none_or(|w| w == divide),
            _ => false,
        })
    };
    vec![
        ("HAS_QUERY_TRANSFORM", has(Hook::QueryTransform)),
        ("HAS_KEY_TRANSFORM", has(Hook::KeyTransform)),
        ("HAS_VALUE_TRANSFORM", has(Hook::ValueTransform)),
        ("HAS_LOGITS_TRANSFORM", has(Hook::LogitsTransform)),
        ("HAS_LOGITS_MASK", has(Hook::LogitsMask)),
        ("HAS_TILE_CLASS", parts.iter().any(|p| !p.mask.over.is_empty())),
        ("HAS_WEIGHT", has(Hook::Weight)),
        ("HAS_DENOMINATOR", has(Hook::Denominator)),
        ("HAS_SINK", has(Hook::SinkLogit)),
        ("HAS_OUTPUT_TRANSFORM", has(Hook::OutputTransform)),
        ("HAS_KV_LIST", has(Hook::KvListLen)),
        ("HAS_BOUNDS", has_bounds(parts)),
        ("STORES", parts.iter().any(|p| p.fields.iter().any(|f| matches!(f.ty, FieldType::Out { .. })))),
        ("PLAIN", plain(None)),
        ("PLAIN_DIVIDE", plain(Some(true))),
    ]
}

fn float(x: f32) -> String {
    if x.is_infinite() { if x > 0.0 { "F32_INFINITY" } else { "-F32_INFINITY" }.to_owned() } else { format!("{x:?}f") }
}

/// Whether the keys of a row are provably an interval.
fn has_bounds(parts: &[&VariantDesc]) -> bool {
    let mut masks = parts.iter().filter(|p| p.has(Hook::LogitsMask)).peekable();
    masks.peek().is_some() && masks.all(|p| !p.mask.bounds.is_empty())
}

fn kv_bounds(parts: &[&VariantDesc]) -> String {
    let mut text =
        String::from("\n  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {\n    Bounds all = {0, 2147483647};\n");
    if has_bounds(parts) {
        for (i, _) in parts.iter().enumerate().filter(|(_, p)| p.has(Hook::LogitsMask)) {
            text += &format!("    const Bounds bounds{i} = part{i}.kv_bounds(at);\n");
            text += &format!("    all.begin = max(all.begin, bounds{i}.begin);\n");
            text += &format!("    all.end = min(all.end, bounds{i}.end);\n");
        }
    }
    text + "    return all;\n  }\n"
}

fn kv_list(parts: &[&VariantDesc]) -> String {
    let hook = |hook: Hook, head: &str, call: &str, none: &str| {
        let part = parts.iter().position(|p| p.has(hook));
        let value = part.map_or(none.to_owned(), |i| format!("part{i}.{call}"));
        format!("\n  ATTN_FN int {head} const {{\n    return {value};\n  }}\n")
    };
    hook(Hook::KvListLen, "kv_list_len(RowIndex at)", "kv_list_len(at)", "0")
        + &hook(Hook::KvListBlock, "kv_list_block(RowIndex at, int n)", "kv_list_block(at, n)", "n")
}

/// A hook of the composition: of all parts that wrote it, or trivial.
fn hook_text(hook: Hook, parts: &[&VariantDesc]) -> String {
    let with = |hook| move |(_, p): &(usize, &&VariantDesc)| p.has(hook);
    let calls: Vec<usize> = parts.iter().enumerate().filter(with(hook)).map(|(i, _)| i).collect();
    let head = match hook {
        Hook::QueryTransform => "template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const",
        Hook::KeyTransform => "template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const",
        Hook::ValueTransform => "template <class R> ATTN_FN void value_transform(R& v, KvIndex at) const",
        Hook::LogitsTransform => "ATTN_FN float logits_transform(float logit, LogitIndex at) const",
        Hook::LogitsMask => "ATTN_FN bool logits_mask(LogitIndex at) const",
        Hook::Weight => "ATTN_FN float weight(float logit, float row_max, LogitIndex at) const",
        Hook::Denominator => "ATTN_FN float denominator(float logit, float row_max, float weight, LogitIndex at) const",
        Hook::SinkLogit => "ATTN_FN float sink_logit(RowIndex at) const",
        Hook::OutputTransform => {
            "template <class R> ATTN_FN void output_transform(R& o, RowState state, RowIndex at) const"
        }
        _ => unreachable!("not composed yet"),
    };
    let each = |call: &str| calls.iter().map(|i| format!("    part{i}.{call};\n")).collect::<String>();
    // f(f(first, second), third)
    let folded = |function: &str, call: &str, none: &str| {
        let mut items = calls.iter().map(|i| format!("part{i}.{call}"));
        let first = items.next().unwrap_or_else(|| none.to_owned());
        let value = items.fold(first, |all, item| format!("{function}({all}, {item})"));
        format!("    return {value};\n")
    };
    // at most one part may write it
    let one = |call: &str, none: &str| match calls.last() {
        Some(i) => format!("    return part{i}.{call};\n"),
        None => format!("    return {none};\n"),
    };
    let body = match hook {
        Hook::QueryTransform => each("query_transform(q, at)"),
        Hook::KeyTransform => each("key_transform(k, at)"),
        Hook::ValueTransform => each("value_transform(v, at)"),
        Hook::OutputTransform => each("output_transform(o, state, at)"),
        Hook::LogitsTransform => {
            let steps: String =
                calls.iter().map(|i| format!("    logit = part{i}.logits_transform(logit, at);\n")).collect();
            steps + "    return logit;\n"
        }
        Hook::LogitsMask if calls.is_empty() => "    return true;\n".to_owned(),
        Hook::LogitsMask => {
            let all: Vec<_> = calls.iter().map(|i| format!("part{i}.logits_mask(at)")).collect();
            format!("    return {};\n", all.join(" && "))
        }
        Hook::Weight => one("weight(logit, row_max, at)", "exp(logit - row_max)"),
        Hook::Denominator => one("denominator(logit, row_max, weight, at)", "weight"),
        Hook::SinkLogit => folded("log_add_exp", "sink_logit(at)", "-F32_INFINITY"),
        _ => String::new(),
    };
    if body.is_empty() { format!("  {head} {{}}\n") } else { format!("  {head} {{\n{body}  }}\n") }
}

/// The smallest class of all masks; one of which nothing is derived proves nothing.
fn tile_class(parts: &[&VariantDesc]) -> String {
    if !parts.iter().any(|p| p.has(Hook::LogitsMask)) {
        return "    return TileClass::Full;\n".to_owned();
    }
    let mut text = String::from("    TileClass all = TileClass::Full;\n");
    for (i, part) in parts.iter().enumerate().filter(|(_, p)| p.has(Hook::LogitsMask)) {
        let class = match part.mask.over {
            "" => "TileClass::Partial".to_owned(),
            _ => format!("lang::range::tile_class(part{i}.mask_over(tile))"),
        };
        text += &format!("    if (const TileClass class{i} = {class}; class{i} < all) all = class{i};\n");
    }
    text + "    return all;\n"
}
