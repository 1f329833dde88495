//! Small texts whose work doubles with each line.

use super::source::{Texts, joined, transform, variant};

pub(super) fn add(all: &mut Texts) {
    let bodies = [
        ("tuples", "let a0 = logit;", "let aI = (aJ, aJ);", "a0"),
        ("triples", "let a0 = logit;", "let aI = (aJ, aJ, aJ, aJ);", "a0"),
        ("uniform", "let a0 = self.a;", "let aI = aJ + aJ;", "logit * aL"),
        ("uniform_tanh", "let a0 = self.a;", "let aI = aJ * aJ;", "logit.tanh() * aL"),
        ("parts", "let a0 = logit;", "let aI = (aJ, aJ); let bI = aI.0;", "a0"),
        ("arrays", "let a0 = logit;", "let aI = [aJ, aJ];", "a0"),
        ("repeats", "let a0 = logit;", "let aI = [aJ; 64];", "a0"),
        ("structs", "let a0 = logit;", "let aI = S { x: aJ, y: aJ };", "a0"),
        ("calls", "let a0 = logit;", "let aI = h(aJ, aJ);", "a0"),
        ("sums", "let a0 = logit;", "let aI = aJ + aJ;", "aL"),
        ("indices", "let a0 = at.kv_pos;", "let aI = h(aJ, aJ);", "(aL + at.qo_pos) as f32"),
        ("indices_of_structs", "let a0 = at.kv_pos;", "let aI = S { x: aJ, y: aJ };", "logit"),
        ("branches", "let a0 = logit;", "let aI = if aJ > 0.0 { aJ } else { aJ + 1.0 };", "aL"),
        ("biases", "let a0 = logit;", "let aI = if self.a > 0.0 { aJ + 1.0 } else { aJ - 1.0 };", "aL"),
        ("slopes", "let a0 = at.kv_pos as f32;", "let aI = aJ * 0.5 + aJ;", "logit + aL"),
        ("bounds", "let a0 = logit.tanh();", "let aI = (aJ + aJ) * aJ;", "aL"),
        ("minima", "let a0 = logit;", "let aI = aJ.min(aJ).max(aJ);", "aL"),
    ];
    for (name, first, each, last) in bodies {
        for n in [8, 14, 16, 20, 30, 60, 500] {
            let lines = joined(n, |i| {
                each.replace("aI", &format!("a{}", i + 1))
                    .replace("bI", &format!("b{i}"))
                    .replace("aJ", &format!("a{i}"))
            });
            all.add(
                format!("{name}_{n}"),
                transform(&format!("{first} {lines} {}", last.replace("aL", &format!("a{n}")))),
            );
        }
    }
    let bodies = [
        ("ones", "let a0 = 1;", "let aI = aJ + aJ;", "at.kv_pos < aL"),
        ("sums", "let a0 = at.kv_pos & 1;", "let aI = aJ + aJ;", "at.kv_pos < aL"),
        ("differences", "let a0 = at.kv_pos;", "let aI = aJ - aJ;", "at.qo_pos < aL"),
        ("conditions", "let a0 = at.kv_pos < 3;", "let aI = (aJ && at.qo_pos < 5) || (aJ && at.qo_pos > 9);", "aL"),
        ("branches", "let a0 = at.kv_pos;", "let aI = if aJ > at.qo_pos { aJ + 1 } else { aJ - 1 };", "aL < 9"),
        ("structs", "let a0 = at.kv_pos;", "let aI = S { x: aJ, y: aJ };", "at.kv_pos < 3"),
        ("arrays", "let a0 = at.kv_pos;", "let aI = [aJ; 32];", "at.kv_pos < 3"),
        ("tuples", "let a0 = at.kv_pos;", "let aI = (aJ, aJ, aJ, aJ);", "at.kv_pos < 3"),
        ("calls", "let a0 = at.kv_pos;", "let aI = h(aJ, aJ);", "aL < 3"),
    ];
    for (name, first, each, last) in bodies {
        for n in [8, 14, 20, 30, 60, 500] {
            let lines = joined(n, |i| each.replace("aI", &format!("a{}", i + 1)).replace("aJ", &format!("a{i}")));
            let body = format!("{first} {lines} {}", last.replace("aL", &format!("a{n}")));
            let items = "#[device_fn] fn h(x: i32, y: i32) -> i32 { x / 2 + y / 2 }\n#[device_type] #[derive(Clone, \
                         Copy)] struct S { x: i32, y: i32 }";
            all.add(format!("mask_{name}_{n}"), variant(items, "", "", &body));
        }
    }
    let helpers = [
        ("doubled", "fn hI(x: i32) -> i32 { hJ(x) / 2 + hJ(x + 1) / 2 }"),
        ("branched", "fn hI(x: i32) -> i32 { if x > 3 { hJ(x) } else { hJ(x + 1) } }"),
        ("looped", "fn hI(x: i32) -> i32 { let mut s = 0; for i in 0..40 { s += hJ(x + i) / 40; } s }"),
        ("looped_far", "fn hI(x: i32) -> i32 { let mut s = 0; for i in 0..x { s += hJ(x + i) / 40; } s }"),
        ("in_a_row", "fn hI(x: i32) -> i32 { hJ(x + 1) }"),
        ("eight", "fn hI(x: i32) -> i32 { hJ(hJ(hJ(hJ(hJ(hJ(hJ(hJ(x)))))))) }"),
    ];
    for (name, each) in helpers {
        for n in [4, 8, 11, 12, 16, 20, 30, 100, 2000] {
            let items = joined(n, |i| {
                format!("#[device_fn] {}\n", each.replace("hI", &format!("h{}", i + 1)).replace("hJ", &format!("h{i}")))
            });
            let items = format!("#[device_fn] fn h0(x: i32) -> i32 {{ x + 1 }}\n{items}");
            let body = format!("h{n}(at.kv_pos) <= at.qo_pos");
            all.add(format!("helpers_{name}_{n}"), variant(&items, "", "", &body));
        }
    }
    for n in [10, 30, 60, 1000] {
        let items =
            joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{} {{ x: S{i}, y: S{i} }}\n", i + 1));
        let items = format!("#[device_type] #[derive(Clone, Copy)] struct S0 {{ x: f32 }}\n{items}");
        all.add(format!("types_{n}"), variant(&items, "", &format!("let s: S{n} = S{n} {{ x: 1.0 }}; logit"), ""));
        let items = joined(n, |i| format!("const A{}: i32 = A{i} + A{i};\n", i + 1));
        all.add(
            format!("consts_{n}"),
            variant(&format!("const A0: i32 = 1;\n{items}"), "", "", &format!("at.kv_pos < A{n}")),
        );
        let items = joined(n, |i| format!("const A{}: i32 = if A{i} > 0 {{ A{i} }} else {{ A{i} - 1 }};\n", i + 1));
        all.add(
            format!("const_branches_{n}"),
            variant(&format!("const A0: i32 = 1;\n{items}"), "", "", &format!("at.kv_pos < A{n}")),
        );
    }
}
