//! Loops within loops, unrolled loops, and loops one after the other.

use super::source::{Texts, joined, mask, transform};

pub(super) fn add(all: &mut Texts) {
    for most in ["9", "64", "65", "1 << 30", "2147483647", "4294967295u32", "self.n", "at.kv_len"] {
        for depth in 1..=6 {
            let head = |i: usize| format!("for i{i} in 0..{most} {{ ");
            for (name, step) in [
                ("empty", ""),
                ("sum", "x = x + i0;"),
                ("chosen", "if i0 == at.kv_pos { x = x + 1; }"),
                ("returns", "if i0 == at.kv_pos { return true; }"),
                ("breaks", "if x > 9 { break; }"),
                ("lets", "let y = x; let x = y;"),
            ] {
                let body = format!("let mut x = at.qo_pos; {}{step}{} x < 3", joined(depth, head), "}".repeat(depth));
                all.add(format!("{name}_{depth}_{}", most.replace(' ', "")), mask(&body));
            }
            let body = format!(
                "let mut x = logit; {}x = x + 1.0;{} x",
                joined(depth, head).replace("self.n", "9"),
                "}".repeat(depth)
            );
            all.add(format!("float_{depth}_{}", most.replace(' ', "")), transform(&body));
        }
    }
    for unroll in ["0", "1", "255", "256", "4294967296"] {
        let body = format!(
            "let mut x = logit; #[unroll({unroll})] for i in 0..64 {{ #[unroll({unroll})] for j in 0..64 {{ \
             x = x + 1.0; }} }} x"
        );
        all.add(format!("unroll_{unroll}"), transform(&body));
    }
    for n in [10, 100, 1000] {
        all.add(
            format!("in_a_row_{n}"),
            mask(&format!(
                "let mut x = 0; {} x < at.kv_pos",
                "for i in 0..64 { x = (x + i * at.qo_pos) & 15; }".repeat(n)
            )),
        );
        all.add(
            format!("far_in_a_row_{n}"),
            mask(&format!(
                "let mut x = 0; {} x < at.kv_pos",
                "for i in 0..self.n { x = (x + i * at.qo_pos) & 15; }".repeat(n)
            )),
        );
        let steps = "x = (x * 3 + i) & 1023;".repeat(n);
        all.add(
            format!("long_step_{n}"),
            mask(&format!("let mut x = 0; for i in 0..self.n {{ for j in 0..self.n {{ {steps} }} }} x < at.kv_pos")),
        );
    }
}
