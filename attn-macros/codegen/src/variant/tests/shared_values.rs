//! A value that is used twice by the next one, forty times over: the text must not double each time.

use std::time::{Duration, Instant};

use super::*;

/// Expands an impl of these hooks, and returns the length of its text.
fn expanded(hooks: &str) -> usize {
    let item: TokenStream = format!("impl AttentionVariant for X {{ {hooks} }}").parse().expect("tokens");
    let start = Instant::now();
    let text = expand(TokenStream::new(), item).to_string();
    assert!(!text.contains("compile_error"), "{:.400}", &text[text.find("compile_error").unwrap_or(0)..]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?} for {hooks}", start.elapsed());
    text.len()
}

/// `first`, and then forty values, each made of the one before it twice.
fn lets(first: &str, next: &str) -> String {
    let mut text = format!("let x0 = {first};\n");
    for i in 0..40 {
        text += &format!("let x{} = {};\n", i + 1, next.replace('x', &format!("x{i}")));
    }
    text
}

#[test]
fn text_grows_with_the_source() {
    let transform =
        |body: String| format!("fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {{ {body} }}");
    let mask = |body: String| format!("fn logits_mask(&self, at: LogitIndex) -> bool {{ {body} }}");
    for hooks in [
        transform(lets("at.kv_pos as f32", "x + x") + "logit + x40"),
        transform(lets("at.kv_pos as f32 * self.a", "x - (-x)") + "logit - x40"),
        transform(lets("at.kv_pos", "x + x") + "logit + self.table[x40 & 7]"),
        transform(lets("logit", "x * 0.5 + x") + "x40"),
        transform(lets("logit.tanh()", "x.sin() * x") + "x40"),
        transform(lets("at.kv_pos as f32", "if x > 1.0 { x } else { -x }") + "logit + x40"),
        mask(lets("at.qo_pos", "x ^ (x >> 1)") + "at.kv_pos <= x40"),
        mask(lets("at.kv_pos", "x ^ (x >> 1)") + "at.qo_pos <= x40"),
        mask(lets("(at.kv_pos, at.qo_pos)", "(x.0 + x.1, x.1 + x.0)") + "x40.0 <= x40.1"),
        mask(lets("[at.kv_pos, at.qo_pos]", "[x[0] + x[1], x[1] - x[0]]") + "x40[0] <= x40[1]"),
        mask(lets("at.kv_pos <= at.qo_pos", "(x && self.a > 1.0) || (x && at.kv_pos > 7)") + "x40"),
    ] {
        let length = expanded(&hooks);
        assert!(length < 200 * hooks.len(), "{length} for {hooks}");
    }
}
