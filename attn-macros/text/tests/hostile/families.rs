//! Families of hostile texts.

use std::{fmt::Write as _, fs, path::Path};

/// The texts that were slow, ran out of stack or did not end before there was a budget. They always run.
pub(crate) const FOUND: [&str; 24] = [
    "require_contains_20",
    "require_contains_30",
    "tuples_20",
    "parts_20",
    "structs_30",
    "indices_30",
    "uniform_30",
    "ones_30",
    "mask_ones_30",
    "guards_60",
    "mask_guard_60",
    "helpers_doubled_16",
    "helpers_doubled_2000",
    "helpers_looped_far_8",
    "shadowed_5000",
    "read_consts_4000",
    "arguments_16000",
    "instances_16000",
    "helpers_4000",
    "variants_1000",
    "empty_6_64",
    "type_option_300",
    "integer_1000000",
    "argument_18446744073709551615",
];

/// A name of a text, and the text.
type Named = (String, String);

/// The texts of a family; fewer of them unless `whole`.
pub(crate) fn texts(family: &str, whole: bool) -> Vec<Named> {
    let mut all = Vec::new();
    match family {
        "nesting" => nesting(&mut all),
        "chains" => chains(&mut all),
        "many" => many(&mut all),
        "exponential" => exponential(&mut all),
        "numbers" => numbers(&mut all),
        "loops" => loops(&mut all),
        "names" => names(&mut all),
        _ => committed(&mut all, whole),
    }
    all
}

/// A variant with these items before it, fields, and body of `logits_transform`, and the body of `logits_mask`.
fn variant(items: &str, fields: &str, transform: &str, mask: &str) -> String {
    let mut hooks = String::new();
    if !transform.is_empty() {
        let _ = writeln!(hooks, "fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {{ {transform} }}");
    }
    if !mask.is_empty() {
        let _ = writeln!(hooks, "fn logits_mask(&self, at: LogitIndex) -> bool {{ {mask} }}");
    }
    format!(
        "use attn::prelude::*;\n{items}\n#[derive(Clone, VariantParams)]\nstruct V {{ {fields} }}\n\
         #[attention_variant]\nimpl AttentionVariant for V {{\n{hooks}}}\n"
    )
}

fn transform(body: &str) -> String {
    variant("", "a: f32", body, "")
}

fn mask(body: &str) -> String {
    variant("", "n: i32", "", body)
}

/// `open` and `close` around `inside`, `n` times.
fn nested(open: &str, inside: &str, close: &str, n: usize) -> String {
    format!("{}{inside}{}", open.repeat(n), close.repeat(n))
}

fn joined(n: usize, of: impl Fn(usize) -> String) -> String {
    (0..n).map(of).collect()
}

/// Constructs as `open`, what is inside, `close`: of floats, and of conditions.
fn nesting(all: &mut Vec<Named>) {
    let of_floats = [
        ("parens", "(", "logit", ")"),
        ("blocks", "{", "logit", "}"),
        ("ifs", "if self.a > 0.0 { logit } else {", "logit", "}"),
        ("ifs_first", "if self.a > 0.0 {", "logit", "} else { logit }"),
        ("conditions", "if (", "logit", ") > 0.0 { logit } else { logit }"),
        ("matches", "match 3 { 1 => logit, _ => ", "logit", "}"),
        ("subjects", "match ", "1", " { 1 => 2, n => n }"),
        ("guards", "match 1 { n if (", "logit", ") > 0.0 => logit, _ => logit }"),
        ("lets", "{ let x = ", "logit", "; x }"),
        ("typed_lets", "{ let x: f32 = ", "logit", "; x }"),
        ("mutable", "{ let mut x = ", "logit", "; x += x; x }"),
        ("tuples", "(", "logit", ", logit).0"),
        ("tuples_of_tuples", "(", "logit", ", logit)"),
        ("arrays", "[", "logit", "]"),
        ("repeats", "[", "logit", "; 64]"),
        ("negations", "-", "logit", ""),
        ("negations_in", "-(", "logit", ")"),
        ("casts", "(", "logit", " as i32) as f32"),
        ("methods", "", "logit", ".max(logit)"),
        ("arguments", "logit.max(", "logit", ")"),
        ("approx", "approx::tanh(", "logit", ")"),
        ("calls", "helper(", "logit", ")"),
        ("closures", "|x| ", "logit", ""),
        ("sums", "logit + (", "logit", ")"),
        ("products", "logit * (", "logit", ")"),
        ("structs", "S { x: ", "logit", " }"),
        ("fields", "S { x: ", "logit", " }.x"),
        ("attributes", "#[a] (", "logit", ")"),
        ("indices", "self.t[(", "1", ") as i32]"),
        ("generics", "helper::<{ ", "4", " }>(logit)"),
        ("unsafe", "unsafe {", "logit", "}"),
        ("returns", "return ", "logit", ""),
        ("labels", "'a: {", "logit", "}"),
        ("macros", "m!(", "logit", ")"),
        ("ranges", "(0..", "1", ")"),
    ];
    for (name, open, inside, close) in of_floats {
        for n in [12, 20, 30, 60, 300, 5000] {
            all.push((format!("{name}_{n}"), transform(&nested(open, inside, close, n))));
        }
    }
    let of_conditions = [
        ("not", "!(", "at.kv_pos < 3", ")"),
        ("and", "at.kv_pos > 1 && (", "at.kv_pos < 3", ")"),
        ("mixed", "at.kv_pos > 1 || !(at.kv_pos < 9 && (", "at.kv_pos < 3", "))"),
        ("if", "if at.kv_pos > at.qo_pos { true } else {", "at.kv_pos < 3", "}"),
        ("if_both", "if ", "at.kv_pos < 3", " { at.qo_pos > 3 } else { at.qo_pos < 3 }"),
        ("match", "match at.kv_pos { 1 => false, n if n > 7 => true, _ => ", "at.kv_pos < 3", "}"),
        ("guard", "match at.kv_pos { n if ", "at.kv_pos < 3", " => n > 3, _ => false }"),
        ("equal", "(", "at.kv_pos < 3", ") == (at.qo_pos < 3)"),
        ("let", "{ let x = ", "at.kv_pos < 3", "; x & (at.qo_pos < 5) }"),
        ("for", "{ let mut x = ", "at.kv_pos < 3", "; for i in 0..9 { x = x & (i < at.kv_pos); } x }"),
        ("bits", "(1 << (1 & (", "at.kv_pos", "))) as i32"),
    ];
    for (name, open, inside, close) in of_conditions {
        for n in [12, 20, 30, 60, 300] {
            all.push((format!("mask_{name}_{n}"), mask(&nested(open, inside, close, n))));
        }
    }
    for (name, open, inside, close) in [
        ("contains", "(0..9).contains(&", "n", ")"),
        ("all", "t.as_slice().iter().all(|x| ", "true", ")"),
        ("abs", "(", "n", ").abs()"),
    ] {
        for n in [12, 20, 30, 60, 300] {
            let condition = nested(open, inside, close, n);
            let fields = format!("#[require({condition})] n: i32, #[shape(batch)] t: Tensor1<i32>");
            all.push((format!("require_{name}_{n}"), variant("", &fields, "logit", "")));
        }
    }
    for (name, open, close) in [
        ("array", "[", "; 64]"),
        ("tuple", "(", ", f32)"),
        ("reference", "&", ""),
        ("option", "Option<", ">"),
        ("function", "fn() -> ", ""),
        ("pointer", "*const ", ""),
        ("dyn", "dyn Fn() -> ", ""),
        ("qualified", "<", " as A>::B"),
        ("slice", "[", "]"),
    ] {
        for n in [4, 12, 20, 60, 300] {
            let text = nested(open, "f32", close, n);
            all.push((format!("type_{name}_{n}"), transform(&format!("let x: {text} = logit; logit"))));
            all.push((format!("field_{name}_{n}"), variant("", &format!("a: {text}"), "logit", "")));
            let items = format!("#[device_type] #[derive(Clone, Copy)] struct S {{ x: {text} }}");
            all.push((format!("device_type_{name}_{n}"), variant(&items, "", "logit", "")));
            let items = format!("#[device_fn] fn f(x: {text}) -> {text} {{ x }}");
            all.push((format!("argument_{name}_{n}"), variant(&items, "", "logit", "")));
        }
    }
}

fn chains(all: &mut Vec<Named>) {
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
            all.push((format!("{name}_{n}"), transform(&format!("{first}{}{tail}", next.repeat(n)))));
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
            all.push((format!("mask_{name}_{n}"), mask(&format!("{first}{}{close}", next.repeat(n)))));
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
            all.push((format!("{name}_{n}"), transform(&format!("let mut x = logit; {} x", stmt.repeat(n)))));
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
            all.push((format!("mask_{name}_{n}"), mask(&body)));
        }
    }
}

fn many(all: &mut Vec<Named>) {
    let body = "logit";
    for n in [100, 1000, 4000, 16_000, 60_000] {
        let fields = joined(n, |i| format!("a{i}: f32,"));
        all.push((format!("fields_{n}"), variant("", &fields, body, "")));
        let fields = joined(n.min(4000), |i| format!("#[shape(b{i})] a{i}: Tensor1<f32>,"));
        all.push((format!("shapes_{n}"), variant("", &fields, body, "")));
        let consts = joined(n, |i| format!("const A{i}: i32 = {i};"));
        all.push((format!("consts_{n}"), variant(&consts, "", body, "")));
        let read = joined(n, |i| format!("let x = x + A{i};"));
        let items = format!("{consts} {}", "");
        all.push((format!("read_consts_{n}"), variant(&items, "", "", &format!("let x = at.kv_pos; {read} x < 3"))));
        let read = joined(n, |i| format!("let x = x + m{i}::A;"));
        all.push((format!("alike_consts_{n}"), mask(&format!("let x = at.kv_pos; {read} x < 3"))));
        let inner = joined(n, |i| format!("const A{i}: i32 = A{};", i + 1));
        all.push((format!("inner_consts_{n}"), mask(&format!("{inner} at.kv_pos < A0"))));
        let helpers = joined(n, |i| format!("#[device_fn] fn h{i}(x: f32) -> f32 {{ x }}"));
        all.push((format!("helpers_{n}"), variant(&helpers, "", body, "")));
        let helpers = joined(n, |i| format!("#[device_fn] fn h{i}(x: f32) -> f32 {{ h{}(x) }}", i + 1));
        all.push((format!("helpers_in_a_row_{n}"), variant(&helpers, "", "h0(logit)", "")));
        let called = joined(n, |i| format!("let x = h{i}(x);"));
        all.push((format!("called_{n}"), transform(&format!("let x = logit; {called} x"))));
        let types = joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{i} {{ x: f32 }}"));
        all.push((format!("types_{n}"), variant(&types, "", body, "")));
        let types = joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{i} {{ x: S{} }}", i + 1));
        all.push((format!("types_in_a_row_{n}"), variant(&types, "", body, "")));
        let variants = joined(n, |i| format!("V{i},"));
        let items = format!("#[device_type] #[derive(Clone, Copy, PartialEq)] enum E {{ {variants} }}");
        all.push((format!("enum_{n}"), variant(&items, "", body, "")));
        let instances = joined(n, |i| format!("{i},"));
        let text = "#[derive(Clone, VariantParams)] struct V<const N: i32> {}\n#[attention_variant(name = \"v\", \
                    instances(INSTANCES))]\nimpl<const N: i32> AttentionVariant for V<N> {\nfn logits_mask(&self, at: \
                    LogitIndex) -> bool { at.kv_pos < N && at.kv_pos > at.qo_pos - N } }";
        all.push((format!("instances_{n}"), text.replace("INSTANCES", &instances)));
        let long = "let x = x + at.kv_pos % 7;".repeat(n.min(1000));
        let body_of = format!("let x = at.qo_pos; {long} x < N");
        let instances = joined(60, |i| format!("{i},"));
        let text = text.replace("at.kv_pos < N && at.kv_pos > at.qo_pos - N", &body_of);
        all.push((format!("long_instances_{n}"), text.replace("INSTANCES", &instances)));
        let lets = joined(n, |i| format!("let x{i} = logit;"));
        all.push((format!("lets_{n}"), transform(&format!("{lets} logit"))));
        all.push((
            format!("arms_{n}"),
            mask(&format!("match at.kv_pos {{ {} _ => true }}", joined(n, |i| format!("{i} => false,")))),
        ));
        all.push((
            format!("patterns_{n}"),
            mask(&format!("match at.kv_pos {{ {} 1 => false, _ => true }}", "1 | ".repeat(n))),
        ));
        let elements = "logit,".repeat(n);
        all.push((format!("elements_{n}"), transform(&format!("let a = [{elements}]; a[0]"))));
        all.push((format!("arguments_{n}"), transform(&format!("helper({elements})"))));
        all.push((format!("mistakes_{n}"), transform(&format!("{} logit", "let y = unknown(zz);".repeat(n)))));
        all.push((
            format!("unknown_methods_{n}"),
            transform(&format!("{} logit", "logit.unknown_method();".repeat(n))),
        ));
        all.push((
            format!("missing_fields_{n}"),
            variant("", &joined(200, |i| format!("a{i}: f32,")), &format!("{} logit", "self.zz;".repeat(n)), ""),
        ));
        let hooks = "fn logits_mask(&self, at: LogitIndex) -> bool { at.kv_pos < 3 }\n".repeat(n.min(5000));
        all.push((format!("hooks_{n}"), mask("true").replace("fn logits_mask", &format!("{hooks}fn logits_mask"))));
        let impls = joined(n, |i| {
            format!(
                "#[derive(Clone, VariantParams)] struct W{i} {{ n: i32 }}\n\
                 #[attention_variant] impl AttentionVariant for W{i} {{ fn logits_mask(&self, at: LogitIndex) -> bool \
                 {{ at.kv_pos < self.n }} }}\n"
            )
        });
        all.push((format!("variants_{n}"), impls));
        all.push((format!("docs_{n}"), format!("{}{}", "/// A line.\n".repeat(n), mask("true"))));
        all.push((
            format!("generics_{n}"),
            variant(
                &format!("#[device_fn] fn f<{}>(x: f32) -> f32 {{ x }}", joined(n, |i| format!("const A{i}: i32,"))),
                "",
                "logit",
                "",
            ),
        ));
    }
}

/// Small texts whose work doubles with each line.
fn exponential(all: &mut Vec<Named>) {
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
            all.push((
                format!("{name}_{n}"),
                transform(&format!("{first} {lines} {}", last.replace("aL", &format!("a{n}")))),
            ));
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
            all.push((format!("mask_{name}_{n}"), variant(items, "", "", &body)));
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
            all.push((format!("helpers_{name}_{n}"), variant(&items, "", "", &body)));
        }
    }
    for n in [10, 30, 60, 1000] {
        let items =
            joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{} {{ x: S{i}, y: S{i} }}\n", i + 1));
        let items = format!("#[device_type] #[derive(Clone, Copy)] struct S0 {{ x: f32 }}\n{items}");
        all.push((format!("types_{n}"), variant(&items, "", &format!("let s: S{n} = S{n} {{ x: 1.0 }}; logit"), "")));
        let items = joined(n, |i| format!("const A{}: i32 = A{i} + A{i};\n", i + 1));
        all.push((
            format!("consts_{n}"),
            variant(&format!("const A0: i32 = 1;\n{items}"), "", "", &format!("at.kv_pos < A{n}")),
        ));
        let items = joined(n, |i| format!("const A{}: i32 = if A{i} > 0 {{ A{i} }} else {{ A{i} - 1 }};\n", i + 1));
        all.push((
            format!("const_branches_{n}"),
            variant(&format!("const A0: i32 = 1;\n{items}"), "", "", &format!("at.kv_pos < A{n}")),
        ));
    }
}

fn numbers(all: &mut Vec<Named>) {
    for digits in [20, 1000, 100_000, 1_000_000, 3_000_000] {
        let number = "9".repeat(digits);
        all.push((format!("integer_{digits}"), mask(&format!("at.kv_pos < {number}"))));
        all.push((format!("float_{digits}"), transform(&format!("logit + {number}.0"))));
        all.push((format!("exponent_{digits}"), transform(&format!("logit + 1e{number}"))));
        all.push((format!("array_{digits}"), transform(&format!("let a = [logit; {number}]; a[0]"))));
        all.push((format!("const_{digits}"), variant(&format!("const A: i32 = {number};"), "", "", "at.kv_pos < A")));
        let instance = format!(
            "#[derive(Clone, VariantParams)] struct V<const N: i32> {{}}\n\
             #[attention_variant(name = \"v\", instances({number}))]\nimpl<const N: i32> AttentionVariant for V<N> \
             {{\nfn logits_mask(&self, at: LogitIndex) -> bool {{ at.kv_pos < N }} }}"
        );
        all.push((format!("instance_{digits}"), instance));
        all.push((format!("default_{digits}"), variant("", &format!("#[default({number})] n: i32"), "logit", "")));
        all.push((format!("shape_{digits}"), variant("", &format!("#[shape({number})] n: Tensor1<f32>"), "logit", "")));
        all.push((format!("string_{digits}"), transform(&format!("\"{number}\""))));
        all.push((format!("part_{digits}"), transform(&format!("(logit, logit).{number}"))));
    }
    for len in ["64", "4096", "4097", "100000", "1073741824", "18446744073709551615"] {
        all.push((format!("repeat_{len}"), transform(&format!("let a = [logit; {len}]; a[0]"))));
        all.push((format!("repeat_twice_{len}"), transform(&format!("let a = [[logit; {len}]; {len}]; a[0][0]"))));
        all.push((format!("typed_{len}"), transform(&format!("let a: [f32; {len}] = helper(logit); a[0]"))));
        all.push((format!("mask_{len}"), mask(&format!("let mut a = [at.kv_pos; {len}]; a[0] = 1; a[1] < 3"))));
        all.push((
            format!("argument_{len}"),
            variant(&format!("#[device_fn] fn f(x: [[i32; {len}]; {len}]) -> i32 {{ x[0][0] }}"), "", "logit", ""),
        ));
        all.push((
            format!("const_array_{len}"),
            variant(&format!("const T: [f32; {len}] = [0.0; {len}];"), "", "logit + T[0]", ""),
        ));
        all.push((
            format!("field_{len}"),
            variant(&format!("#[device_type] #[derive(Clone, Copy)] struct S {{ x: [f32; {len}] }}"), "", "logit", ""),
        ));
    }
    for n in [100, 5000, 60_000] {
        let numbers = "1.5,".repeat(n);
        all.push((
            format!("table_{n}"),
            variant(&format!("const T: [f32; {n}] = [{numbers}];"), "", "logit + T[0]", ""),
        ));
        all.push((format!("local_table_{n}"), transform(&format!("let t = [{numbers}]; logit + t[3]"))));
        all.push((
            format!("mask_table_{n}"),
            mask(&format!("let t = [{}]; at.kv_pos < t[(at.qo_pos & 3) as usize]", "1,".repeat(n))),
        ));
    }
}

fn loops(all: &mut Vec<Named>) {
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
                all.push((format!("{name}_{depth}_{}", most.replace(' ', "")), mask(&body)));
            }
            let body = format!(
                "let mut x = logit; {}x = x + 1.0;{} x",
                joined(depth, head).replace("self.n", "9"),
                "}".repeat(depth)
            );
            all.push((format!("float_{depth}_{}", most.replace(' ', "")), transform(&body)));
        }
    }
    for unroll in ["0", "1", "255", "256", "4294967296"] {
        let body = format!(
            "let mut x = logit; #[unroll({unroll})] for i in 0..64 {{ #[unroll({unroll})] for j in 0..64 {{ \
             x = x + 1.0; }} }} x"
        );
        all.push((format!("unroll_{unroll}"), transform(&body)));
    }
    for n in [10, 100, 1000] {
        all.push((
            format!("in_a_row_{n}"),
            mask(&format!(
                "let mut x = 0; {} x < at.kv_pos",
                "for i in 0..64 { x = (x + i * at.qo_pos) & 15; }".repeat(n)
            )),
        ));
        all.push((
            format!("far_in_a_row_{n}"),
            mask(&format!(
                "let mut x = 0; {} x < at.kv_pos",
                "for i in 0..self.n { x = (x + i * at.qo_pos) & 15; }".repeat(n)
            )),
        ));
        let steps = "x = (x * 3 + i) & 1023;".repeat(n);
        all.push((
            format!("long_step_{n}"),
            mask(&format!("let mut x = 0; for i in 0..self.n {{ for j in 0..self.n {{ {steps} }} }} x < at.kv_pos")),
        ));
    }
}

fn names(all: &mut Vec<Named>) {
    for letters in [100, 128, 129, 1000, 100_000, 900_000] {
        for letter in ["a", "é", "字"] {
            let name = letter.repeat(letters / letter.len());
            all.push((format!("local_{letter}_{letters}"), transform(&format!("let {name} = logit; {name}"))));
            all.push((format!("field_{letter}_{letters}"), variant("", &format!("{name}: f32"), "logit", "")));
            all.push((
                format!("unknown_{letter}_{letters}"),
                transform(&format!("logit + {name}(logit) + self.{name} + at.{name} as f32 + logit.{name}()")),
            ));
            all.push((
                format!("struct_{letter}_{letters}"),
                transform("logit").replace(" V ", &format!(" {} ", name.to_uppercase())),
            ));
            all.push((format!("hook_{letter}_{letters}"), mask("true").replace("logits_mask", &name)));
            all.push((format!("lifetime_{letter}_{letters}"), transform(&format!("'{name}: loop {{}}"))));
            all.push((
                format!("named_{letter}_{letters}"),
                mask("true").replace("#[attention_variant]", &format!("#[attention_variant(name = \"{name}\")]")),
            ));
            all.push((format!("doc_{letter}_{letters}"), format!("/// {name}\n{}", mask("true"))));
            all.push((
                format!("string_{letter}_{letters}"),
                variant("", &format!("#[doc = \"{name}\"] a: f32"), "logit", ""),
            ));
        }
    }
    all.push(("control".into(), transform("let x\u{200b} = logit; x")));
    all.push(("right_to_left".into(), format!("// \u{202e}\n{}", mask("true"))));
    all.push(("zero".into(), "\0".repeat(1000)));
    all.push(("brackets".into(), "((((".repeat(100_000)));
    all.push(("quotes".into(), "\"".repeat(100_001)));
    all.push(("slashes".into(), "/*".repeat(100_000)));
    all.push(("hashes".into(), format!("r{}", "#".repeat(500_000))));
    all.push(("semicolons".into(), transform(&";".repeat(900_000))));
    all.push(("commas".into(), transform(&format!("helper({})", ",".repeat(100_000)))));
    all.push(("colons".into(), transform(&format!("a{}", "::a".repeat(50_000)))));
    all.push(("spaces".into(), " ".repeat(2_000_000)));
    all.push(("lines".into(), "\n".repeat(1_000_000)));
}

/// The committed corpora of fuzzers. A sample of each, unless `whole`.
fn committed(all: &mut Vec<Named>, whole: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fuzz");
    for name in ["rust_text", "macro_input"] {
        let text = fs::read_to_string(folder.join(format!("{name}.jsonl"))).expect("a corpus");
        let lines = text.lines().enumerate().filter(|(i, _)| whole || i % 3 == 0);
        all.extend(lines.map(|(i, line)| (format!("{name}_{i}"), text_of(line))));
    }
    for entry in fs::read_dir(folder.join("macro_input")).expect("cases") {
        let path = entry.expect("a case").path();
        let text = String::from_utf8_lossy(&fs::read(&path).expect("a case")).into_owned();
        all.push((path.display().to_string(), text));
    }
}

/// A string of JSON, or its bytes.
fn text_of(line: &str) -> String {
    serde_json::from_str::<String>(line).unwrap_or_else(|_| line.to_owned())
}
