//! The bodies of the member functions of combinators: parts in order, `or`, `not`, `remap`. Those of `per_head` are in
//! [`branches`](super::branches).

use attn_core::lang::Hook;

use super::hooks::MemberFunction;
use super::shape::{Shape, last_transform, only_transform};

/// The name of member number `i` of a shape's struct.
pub(super) fn member(shape: &Shape<'_>, i: usize) -> String {
    match (shape, i) {
        (Shape::Remap(_, _), 0) => "map".to_owned(),
        (Shape::Remap(_, _), _) => "inner".to_owned(),
        _ => format!("part{i}"),
    }
}

/// Functions that other member functions call.
pub(super) fn helpers(shape: &Shape<'_>) -> String {
    match shape {
        Shape::Remap(map, _) => {
            let of = |hook: Hook, call: &str, word: &str| match map.has(hook) {
                true => format!("clamp_position(map.{call})"),
                false => format!("at.{word}"),
            };
            let qo_pos = of(Hook::RemapQoPos, "remap_qo_pos(at)", "qo_pos");
            let kv_pos = of(Hook::RemapKvPos, "remap_kv_pos(at)", "kv_pos");
            let key = "remap_kv_pos(KvIndex{at.batch, at.kv_pos, at.kv_token, at.kv_head, at.kv_len})";
            let logit_kv_pos = of(Hook::RemapKvPos, key, "kv_pos");
            format!(
                "  ATTN_FN RowIndex row_at(RowIndex at) const {{\n    at.qo_pos = {qo_pos};\n    return at;\n  }}\n\
                 \n  ATTN_FN KvIndex key_at(KvIndex at) const {{\n    at.kv_pos = {kv_pos};\n    return at;\n  }}\n\
                 \n  ATTN_FN LogitIndex logit_at(LogitIndex at) const {{\n    const int qo_pos = {qo_pos};\n    \
                 at.kv_pos = {logit_kv_pos};\n    at.qo_pos = qo_pos;\n    return at;\n  }}\n"
            )
        }
        _ => String::new(),
    }
}

/// The body of a member function.
pub(super) fn body(function: MemberFunction, shape: &Shape<'_>) -> String {
    match shape {
        Shape::Or(masks) => any(function, masks),
        Shape::Not(mask) => match function {
            MemberFunction::TileClass => format!("    return TileClass(2 - int({}));\n", class_of("part0", mask)),
            _ if mask.has(Hook::LogitsMask) => "    return !part0.logits_mask(at);\n".to_owned(),
            _ => "    return false;\n".to_owned(),
        },
        Shape::Remap(map, inner) => remapped(function, &Shape::Part(map), inner),
        _ => all(function, shape.inside().1),
    }
}

/// The body for parts in order: `part0` and so on.
pub(super) fn all(function: MemberFunction, parts: &[Shape<'_>]) -> String {
    let has: Vec<usize> = (0..parts.len()).filter(|&i| function.is_in(&parts[i])).collect();
    let call = function.call(false);
    let MemberFunction::Hook(hook) = function else {
        return match function {
            MemberFunction::TileClass => {
                let classes = has.iter().map(|&i| (i, class_of(&format!("part{i}"), &parts[i])));
                fold("all", "TileClass::Full", "<", classes)
            }
            MemberFunction::LogitsBias | MemberFunction::LogitsSlope if !has.is_empty() => {
                let terms: Vec<_> = has.iter().map(|i| format!("part{i}.{call}")).collect();
                format!("    return {};\n", terms.join(" + "))
            }
            MemberFunction::LogitsBiasRow => match only_transform(parts) {
                Some((i, only)) if only.adds_rows() => format!("    return part{i}.{call};\n"),
                _ => format!("    return {};\n", function.trivial()),
            },
            MemberFunction::LogitsBound => match last_transform(parts) {
                Some((i, last)) if last.is_bounded() => format!("    return part{i}.{call};\n"),
                _ => format!("    return {};\n", function.trivial()),
            },
            MemberFunction::KvBounds if parts.iter().all(Shape::has_bounds) => bounds(&has),
            _ => format!("    return {};\n", function.trivial()),
        };
    };
    let trivial = format!("    return {};\n", function.trivial());
    match hook {
        Hook::QueryTransform | Hook::KeyTransform | Hook::ValueTransform | Hook::OutputTransform => {
            has.iter().map(|i| format!("    part{i}.{call};\n")).collect()
        }
        Hook::LogitsTransform => {
            has.iter().map(|i| format!("    logit = part{i}.{call};\n")).collect::<String>() + &trivial
        }
        Hook::LogitsMask if !has.is_empty() => {
            let masks: Vec<_> = has.iter().map(|i| format!("part{i}.{call}")).collect();
            format!("    return {};\n", masks.join(" && "))
        }
        // log_add_exp(log_add_exp(first, second), third)
        Hook::SinkLogit if !has.is_empty() => {
            let sinks = has.iter().map(|i| format!("part{i}.{call}"));
            let sum = sinks.reduce(|sum, sink| format!("log_add_exp({sum}, {sink})"));
            format!("    return {};\n", sum.unwrap_or_default())
        }
        Hook::KvRange if !has.is_empty() => {
            let mut text = format!("    Tuple2<int, int> all = {};\n", function.trivial());
            for i in has {
                text += &format!("    const Tuple2<int, int> keys{i} = part{i}.{call};\n");
                text += &format!("    all = {{max(all.x, keys{i}.x), min(all.y, keys{i}.y)}};\n");
            }
            text + "    return all;\n"
        }
        // at most one part has this hook
        _ => has.last().map_or(trivial, |i| format!("    return part{i}.{call};\n")),
    }
}

fn bounds(parts: &[usize]) -> String {
    let mut text = format!("    Bounds all = {};\n", "{-2147483647 - 1, 2147483647}");
    for i in parts {
        text += &format!("    const Bounds bounds{i} = part{i}.kv_bounds(at);\n");
        text += &format!("    all.begin = max(all.begin, bounds{i}.begin);\n");
        text += &format!("    all.end = min(all.end, bounds{i}.end);\n");
    }
    text + "    return all;\n"
}

/// The body for `or` of masks.
fn any(function: MemberFunction, masks: &[Shape<'_>]) -> String {
    if function == MemberFunction::TileClass {
        let classes = masks.iter().enumerate().map(|(i, mask)| (i, class_of(&format!("part{i}"), mask)));
        return fold("any", "TileClass::Skip", ">", classes);
    }
    if masks.iter().any(|mask| !mask.has(Hook::LogitsMask)) {
        return "    return true;\n".to_owned();
    }
    let masks: Vec<_> = (0..masks.len()).map(|i| format!("part{i}.logits_mask(at)")).collect();
    format!("    return {};\n", masks.join(" || "))
}

/// The least or the greatest class; `order` compares a class with the current one.
fn fold(name: &str, from: &str, order: &str, classes: impl Iterator<Item = (usize, String)>) -> String {
    let mut text = String::new();
    for (i, class) in classes {
        text += &format!("    if (const TileClass class{i} = {class}; class{i} {order} {name}) {name} = class{i};\n");
    }
    if text.is_empty() {
        return format!("    return {from};\n");
    }
    format!("    TileClass {name} = {from};\n{text}    return {name};\n")
}

/// The class of a tile under a member's mask.
pub(super) fn class_of(name: &str, shape: &Shape<'_>) -> String {
    let Shape::Part(part) = shape else {
        let asks = MemberFunction::TileClass.is_in(shape);
        return if asks { format!("{name}.tile_class(tile)") } else { "TileClass::Full".to_owned() };
    };
    let mask = match part.mask.over {
        _ if !part.has(Hook::LogitsMask) => "TileClass::Full".to_owned(),
        "" => "TileClass::Partial".to_owned(),
        _ => format!("lang::interval::tile_class({name}.mask_over(tile))"),
    };
    if part.has(Hook::KvRange) { format!("class_in_kv_range({name}.kv_range(tile), tile, {mask})") } else { mask }
}

/// The body for `remap`: the map, then the operand, which sees the mapped positions.
fn remapped(function: MemberFunction, map: &Shape<'_>, inner: &Shape<'_>) -> String {
    let (own, mapped) = (function.call(false), function.call(true));
    let (first, then) = (function.is_in(map), function.is_in(inner));
    if function == MemberFunction::LogitsBias {
        let terms = [(first, "map", &own), (then, "inner", &mapped)];
        let terms = terms.iter().filter(|(is, ..)| *is).map(|(_, member, call)| format!("{member}.{call}"));
        return format!("    return {};\n", terms.collect::<Vec<_>>().join(" + "));
    }
    if function == MemberFunction::LogitsBound {
        let last = if inner.has(Hook::LogitsTransform) { "inner" } else { "map" };
        return format!("    return {last}.{own};\n");
    }
    let MemberFunction::Hook(hook) = function else {
        let (own, inside) = (class_of("map", map), class_of("inner", inner));
        let moved = match map {
            Shape::Part(part) if !part.mask.remap.is_empty() => "    tile = clamp_positions(map.remap_over(tile));\n",
            _ => "",
        };
        return format!(
            "    const TileClass own = {own};\n{moved}    const TileClass inside = {inside};\n    \
             return own < inside ? own : inside;\n"
        );
    };
    // a statement for each operand that has the hook
    let each = |to: &str| {
        let calls = [(first, format!("    {to}map.{own};\n")), (then, format!("    {to}inner.{mapped};\n"))];
        calls.into_iter().filter(|(is, _)| *is).map(|(_, call)| call).collect::<String>()
    };
    match hook {
        Hook::QueryTransform | Hook::KeyTransform | Hook::ValueTransform | Hook::OutputTransform => each(""),
        Hook::LogitsTransform => each("logit = ") + "    return logit;\n",
        Hook::LogitsMask if first && then => format!("    return map.{own} && inner.{mapped};\n"),
        Hook::SinkLogit if first && then => format!("    return log_add_exp(map.{own}, inner.{mapped});\n"),
        _ if first => format!("    return map.{own};\n"),
        _ => format!("    return inner.{mapped};\n"),
    }
}
