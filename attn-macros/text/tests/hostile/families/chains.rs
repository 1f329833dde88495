//! Long chains: operators and calls on one value, and statements that each use the last one's value.

use super::source::{Texts, mask, transform};

pub(super) fn add(all: &mut Texts) {
    let of_floats = [
        ("sum", "logit", " + logit"),
        ("difference", "logit", " - self.a"),
        ("product", "logit", " * logit"),
        ("casts", "logit", " as i32 as f32"),
        ("methods", "logit", ".abs()"),
        ("maxima", "logit", ".max(logit)"),
        ("else_if", "if self.a > 0.0 { logit }", " else if self.a > 1.0 { logit }"),
        ("fields", "logit", ".x"),
        ("parts", "logit", ".0"),
        ("indices", "logit", "[0]"),
        ("assignments", "logit", " = logit"),
        ("questions", "logit", "?"),
        ("signs", "", "-"),
        ("references", "", "&"),
    ];
    for (name, first, next) in of_floats {
        for n in [100, 500, 1000, 20_000] {
            let tail = if first.is_empty() { "logit" } else { "" };
            all.add(format!("{name}_{n}"), transform(&format!("{first}{}{tail}", next.repeat(n))));
        }
    }
    let of_conditions = [
        ("and", "at.kv_pos < 3", " && at.kv_pos < 5"),
        ("or", "at.kv_pos < 3", " || at.kv_pos == 5"),
        ("sum", "at.kv_pos", " + at.qo_pos"),
        ("small_sum", "(at.kv_pos & 1)", " + (at.qo_pos & 1)"),
        ("xor", "at.kv_pos < 3", " ^ (at.kv_pos < 5)"),
    ];
    for (name, first, next) in of_conditions {
        for n in [100, 500, 20_000] {
            let close = if name.contains("sum") { " < 9" } else { "" };
            all.add(format!("mask_{name}_{n}"), mask(&format!("{first}{}{close}", next.repeat(n))));
        }
    }
    // one statement after the other, each with the last one's value
    let statements = [
        ("shadowed", "let x = x + 1.0;"),
        ("assigned", "x += 1.0;"),
        ("branched", "if x > 1.0 { x = x + 1.0; }"),
        ("tuples", "let (y, x) = (x, x);"),
        ("blocks", "let x = { let y = x; y + 1.0 };"),
        ("lambdas", "let x = { let y = x; if y > 1.0 { y } else { 2.0 } };"),
        ("structs", "let x = S { x }.x;"),
        ("returns", "if x > 1.0 { return x; }"),
    ];
    for (name, stmt) in statements {
        for n in [100, 1000, 2500, 5000, 10_000] {
            all.add(format!("{name}_{n}"), transform(&format!("let mut x = logit; {} x", stmt.repeat(n))));
        }
    }
    let statements = [
        ("shadowed", "let x = x + 1;"),
        ("masked", "let x = (x + at.qo_pos) & 7;"),
        ("products", "let x = x * 3 + at.qo_pos;"),
        ("branched", "if at.kv_pos > x { x = x + 1; }"),
        ("returns", "if x == at.kv_pos { return true; }"),
        ("clamped", "let x = x.clamp(0, 9) + 1;"),
        ("flags", "let b = x < at.qo_pos; if b { x = 3; }"),
        ("arrays", "let a = [x, x, x]; let x = a[1];"),
        ("loops", "for i in 0..9 { x = x + i; }"),
        ("long_loops", "for i in 0..self.n { x = x + i; }"),
    ];
    for (name, stmt) in statements {
        for n in [50, 500, 2500, 5000] {
            let body = format!("let mut x = at.kv_pos; {} x < self.n", stmt.repeat(n));
            all.add(format!("mask_{name}_{n}"), mask(&body));
        }
    }
}
