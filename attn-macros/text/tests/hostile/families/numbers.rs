//! Numbers of many digits, lengths of arrays up to 2^64, and long tables.

use super::source::{Texts, mask, transform, variant};

pub(super) fn add(all: &mut Texts) {
    for digits in [20, 1000, 100_000, 1_000_000, 3_000_000] {
        let number = "9".repeat(digits);
        all.add(format!("integer_{digits}"), mask(&format!("at.kv_pos < {number}")));
        all.add(format!("float_{digits}"), transform(&format!("logit + {number}.0")));
        all.add(format!("exponent_{digits}"), transform(&format!("logit + 1e{number}")));
        all.add(format!("array_{digits}"), transform(&format!("let a = [logit; {number}]; a[0]")));
        all.add(format!("const_{digits}"), variant(&format!("const A: i32 = {number};"), "", "", "at.kv_pos < A"));
        let instance = format!(
            "#[derive(Clone, VariantParams)] struct V<const N: i32> {{}}\n\
             #[attention_variant(name = \"v\", instances({number}))]\nimpl<const N: i32> AttentionVariant for V<N> \
             {{\nfn logits_mask(&self, at: LogitIndex) -> bool {{ at.kv_pos < N }} }}"
        );
        all.add(format!("instance_{digits}"), instance);
        all.add(format!("default_{digits}"), variant("", &format!("#[default({number})] n: i32"), "logit", ""));
        all.add(format!("shape_{digits}"), variant("", &format!("#[shape({number})] n: Tensor1<f32>"), "logit", ""));
        all.add(format!("string_{digits}"), transform(&format!("\"{number}\"")));
        all.add(format!("part_{digits}"), transform(&format!("(logit, logit).{number}")));
    }
    for len in ["64", "4096", "4097", "100000", "1073741824", "18446744073709551615"] {
        all.add(format!("repeat_{len}"), transform(&format!("let a = [logit; {len}]; a[0]")));
        all.add(format!("repeat_twice_{len}"), transform(&format!("let a = [[logit; {len}]; {len}]; a[0][0]")));
        all.add(format!("typed_{len}"), transform(&format!("let a: [f32; {len}] = helper(logit); a[0]")));
        all.add(format!("mask_{len}"), mask(&format!("let mut a = [at.kv_pos; {len}]; a[0] = 1; a[1] < 3")));
        all.add(
            format!("argument_{len}"),
            variant(&format!("#[device_fn] fn f(x: [[i32; {len}]; {len}]) -> i32 {{ x[0][0] }}"), "", "logit", ""),
        );
        all.add(
            format!("const_array_{len}"),
            variant(&format!("const T: [f32; {len}] = [0.0; {len}];"), "", "logit + T[0]", ""),
        );
        all.add(
            format!("field_{len}"),
            variant(&format!("#[device_type] #[derive(Clone, Copy)] struct S {{ x: [f32; {len}] }}"), "", "logit", ""),
        );
    }
    for n in [100, 5000, 60_000] {
        let numbers = "1.5,".repeat(n);
        all.add(format!("table_{n}"), variant(&format!("const T: [f32; {n}] = [{numbers}];"), "", "logit + T[0]", ""));
        all.add(format!("local_table_{n}"), transform(&format!("let t = [{numbers}]; logit + t[3]")));
        all.add(
            format!("mask_table_{n}"),
            mask(&format!("let t = [{}]; at.kv_pos < t[(at.qo_pos & 3) as usize]", "1,".repeat(n))),
        );
    }
}
