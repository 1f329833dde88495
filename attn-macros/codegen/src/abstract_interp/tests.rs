//! The text derived from masks.

use super::*;
use crate::hook;
use crate::parse::{self, ItemContext, Links};

/// A mask with this body, and what it names.
fn mask(body: &str) -> (DerivedMask, Links) {
    let item: syn::ImplItemFn =
        syn::parse_str(&format!("fn logits_mask(&self, at: LogitIndex) -> bool {{ {body} }}")).expect("a method");
    let mut shared = ItemContext::default();
    let args = hook::args("logits_mask");
    let f = parse::function(&mut shared, &item.attrs, &item.sig, &item.block, |i, _, _| args.get(i).cloned());
    assert!(shared.report.is_empty(), "{body}");
    (super::derived(&[f], &shared.types), shared.links)
}

/// What is derived from a mask with this body.
fn derived(body: &str) -> DerivedMask {
    mask(body).0
}

/// The body of `mask_over` in Rust.
fn rust(body: &str) -> String {
    let (mask, links) = mask(body);
    let names = emit_rust::RustNames { links: &links, fix: &syn::Path::clone };
    emit_rust::body(&mask.form.expect("derived"), &names).to_string()
}

/// The body of `mask_over` in CUDA, on one line.
fn over(body: &str) -> String {
    let over = derived(body).over;
    let lines: Vec<&str> = over.lines().map(str::trim).collect();
    lines[1..lines.len() - 1].join(" ")
}

#[test]
fn masks_are_emitted_over_intervals() {
    assert_eq!(
        over("at.kv_pos <= at.qo_pos"),
        "const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max); \
         const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max); \
         return interval::tristate(interval::le(kv_pos, qo_pos));"
    );
    assert_eq!(
        rust("at.qo_pos - at.kv_pos < self.window").replace(' ', "").replace("::attn::__private::lang::", ""),
        "interval::tristate(interval::lt(interval::sub(interval::coordinate(tile.qo_pos_min,tile.qo_pos_max),\
         interval::coordinate(tile.kv_pos_min,tile.kv_pos_max)),interval::of(self.window)))"
    );
}

/// The result of a body whose coordinates are `q`, `k`.
fn short(body: &str) -> String {
    let text = over(&format!("let (q, k) = (at.qo_pos, at.kv_pos); {body}"));
    let value = text.split("return interval::tristate(").nth(1).expect("a value").trim_end_matches(");");
    let lets: String = text.split_inclusive(';').filter(|s| s.trim().starts_with("const auto v")).collect();
    format!("{lets} {value}").replace("interval::", "").replace("qo_pos", "q").replace("kv_pos", "k").trim().to_owned()
}

#[test]
fn control_flow_becomes_selects() {
    assert_eq!(short("if k < 4 { return true; } k <= q"), "select(lt(k, of(4)), of(true), le(k, q))");
    assert_eq!(short("let mut w = 3; if q > 9 { w = 5; } q - k < w"), {
        "lt(sub(q, k), select(gt(q, of(9)), of(5), of(3)))"
    });
    assert_eq!(
        short("match q { 0 => false, 1..=3 => k == 0, _ => true }"),
        "select(eq(q, of(0)), of(false), select(both(ge(q, of(1)), le(q, of(3))), eq(k, of(0)), of(true)))"
    );
    assert_eq!(short("let mut n = k; for i in 0..2 { n += i; } n < q"), "lt(add(add(k, of(0)), of(1)), q)");
    // the inner `return` is behind both conditions
    assert_eq!(
        short("if q > 1 { if k > 2 { return false; } } k < q"),
        "select(both(gt(q, of(1)), gt(k, of(2))), of(false), lt(k, q))"
    );
}

#[test]
fn shared_nodes_become_variables() {
    assert_eq!(
        short("let d = q - k; d >= 0 && d < 9"),
        "const auto v2 = sub(q, k); both(ge(v2, of(0)), lt(v2, of(9)))"
    );
}

#[test]
fn underivable_masks_have_a_reason() {
    let why = |body: &str| {
        let mask = derived(body);
        assert!(mask.form.is_none() && mask.over.is_empty() && mask.bounds.is_empty() && mask.tables.is_empty());
        mask.why_not
    };
    assert_eq!(why("at.qo_pos as f32 > 0.5"), lowering::FLOATS);
    assert_eq!(why("let mut r = 0u64; for i in 0..at.kv_len { r = r + 1; } r > 9"), lowering::LOOP);
    // but the known operand of `&&` is kept
    assert_eq!(short("k <= q && q as f32 > self.x * 0.5"), "both(le(k, q), Any{})");
}

/// The keys of a row, as C++.
fn bounds(body: &str) -> String {
    let text = derived(&format!("let (q, k) = (at.qo_pos, at.kv_pos); {body}")).bounds;
    let value = text.split("interval::bounds(").nth(1).map(|v| v.split(");\n").next().unwrap_or_default());
    value.unwrap_or_default().replace("interval::", "")
}

#[test]
fn masks_of_one_interval_per_row_have_bounds() {
    assert_eq!(bounds("k <= q"), "up_to(at.qo_pos)");
    assert_eq!(bounds("k < q"), "up_to(i64(at.qo_pos) - 1)");
    assert_eq!(bounds("k > q"), "from(i64(at.qo_pos) + 1)");
    assert_eq!(bounds("k >= q"), "from(at.qo_pos)");
    assert_eq!(bounds("self.w > k"), "up_to(i64(w_) - 1)");
    assert_eq!(bounds("!(k <= self.w)"), "from(i64(w_) + 1)");
    assert_eq!(bounds("q - k < self.w"), "mirrored(up_to(i64(w_) - 1), at.qo_pos)");
    assert_eq!(bounds("k / self.c == q / self.c && k <= q"), {
        "meet(dividends(only(div(at.qo_pos, c_)), c_), up_to(at.qo_pos))"
    });
    assert_eq!(bounds("self.start[at.qo_token] <= k"), "from(start_[(at.qo_token)])");
    assert_eq!(bounds("k < self.p || k <= q"), "join(up_to(i64(p_) - 1), up_to(at.qo_pos))");
    assert_eq!(bounds("if k > q { return false; } (q - k).abs() <= 9"), {
        "meet(up_to(at.qo_pos), mirrored(within(up_to(9)), at.qo_pos))"
    });
    assert_eq!(bounds("if self.wide { k <= q } else { k == q }"), "((wide_) ? up_to(at.qo_pos) : only(at.qo_pos))");
}

#[test]
fn other_masks_have_no_bounds() {
    for body in [
        "true",
        "self.flag",
        "k != q",
        "k % 2 == 0",
        "k < 4 || k == q",
        "k < self.p || k > q",
        "k * k < q",
        // arithmetic that may wrap does not give an interval of keys
        "k + self.x < q",
        "(k as u32) < 5",
        "at.kv_token < 5",
        "self.of[at.kv_token] == q",
    ] {
        assert_eq!(bounds(body), "", "{body}");
    }
}

#[test]
fn structs_become_fields_and_enums_become_integers() {
    let line = "let w = Line { to: q, from: self.n, odd: 3 };";
    assert_eq!(short(&format!("{line} k <= w.to")), "le(k, q)");
    assert_eq!(short(&format!("{line} let v = Line {{ from: k, ..w }}; v.from < v.to")), "lt(k, q)");
    assert_eq!(short(&format!("{line} let mut v = w; v.to += 1; k < v.to")), "lt(k, add(q, of(1)))");
    assert_eq!(short(&format!("{line} let Line {{ to, .. }} = w; k < to")), "lt(k, q)");
    assert_eq!(short("let p = At(q, k); p.1 <= p.0"), "le(k, q)");
    // the field may be a u8, which wraps where an i32 does not: its value is unknown
    assert_eq!(short(&format!("{line} ((w.odd - 5) as i32) < k")), "lt(cast_i32(Any{}), k)");
    assert_eq!(short(&format!("{line} w.odd - 5 < k")), "lt(sub(of(3), of(5)), k)", "here it is seen to be an i32");
    assert_eq!(short(&format!("{line} w.missing as i32 <= k")), "le(cast_i32(Any{}), k)");
    assert_eq!(
        short(
            "let m = if q < 4 { Mode::Near } else { Mode::Far }; match m { Mode::Near => k <= q, Mode::Far => true }"
        ),
        "select(eq(select(lt(q, of(4)), of(Mode_type::Near), of(Mode_type::Far)), of(Mode_type::Near)), le(k, q), \
         of(true))"
    );
    let rust = rust("let m = mode(at.qo_pos); m == Mode::Near && at.kv_pos < 3");
    assert!(rust.contains("Mode :: Near as i32"), "{rust}");
}

#[test]
fn a_struct_with_an_unknown_branch_is_unknown() {
    assert_eq!(
        short("let w = if q < 4 { Line { to: q } } else { line(3) }; k <= w.to"),
        "const auto v8 = part(line_fn_over(of(3)), [](const auto& of) -> decltype(of.to) { return of.to; \
         le(k, select(lt(q, of(4)), q, v8))"
    );
    assert_eq!(
        short("let w = if q < 4 { Line { to: q } } else { Line { to: k } }; k <= w.to"),
        "le(k, select(lt(q, of(4)), q, k))"
    );
}

#[test]
fn values_that_are_used_twice_do_not_multiply_the_text() {
    let hash: String = (0..40).map(|_| "h = (h ^ (h >> 3)).wrapping_mul(5);").collect();
    let of_row = format!("let mut h = at.qo_pos; {hash} at.kv_pos <= h");
    let either: String = (0..40).map(|i| format!("c = (c && at.kv_pos < {i}) || (c && at.qo_pos > {i});")).collect();
    let of_both = format!("let mut c = at.kv_pos <= at.qo_pos; {either} c");
    for body in [of_row, of_both] {
        let derived = derived(&body);
        assert!(rust(&body).len().max(derived.over.len()).max(derived.bounds.len()) < 100_000);
    }
}
