//! Many of one thing: fields, constants, functions, types, instances, arms, mistakes.

use super::source::{Texts, joined, mask, transform, variant};

pub(super) fn add(all: &mut Texts) {
    let body = "logit";
    for n in [100, 1000, 4000, 16_000, 60_000] {
        let fields = joined(n, |i| format!("a{i}: f32,"));
        all.add(format!("fields_{n}"), variant("", &fields, body, ""));
        let fields = joined(n.min(4000), |i| format!("#[shape(b{i})] a{i}: Tensor1<f32>,"));
        all.add(format!("shapes_{n}"), variant("", &fields, body, ""));
        let consts = joined(n, |i| format!("const A{i}: i32 = {i};"));
        all.add(format!("consts_{n}"), variant(&consts, "", body, ""));
        let read = joined(n, |i| format!("let x = x + A{i};"));
        all.add(format!("read_consts_{n}"), variant(&consts, "", "", &format!("let x = at.kv_pos; {read} x < 3")));
        let read = joined(n, |i| format!("let x = x + m{i}::A;"));
        all.add(format!("alike_consts_{n}"), mask(&format!("let x = at.kv_pos; {read} x < 3")));
        let inner = joined(n, |i| format!("const A{i}: i32 = A{};", i + 1));
        all.add(format!("inner_consts_{n}"), mask(&format!("{inner} at.kv_pos < A0")));
        let helpers = joined(n, |i| format!("#[device_fn] fn h{i}(x: f32) -> f32 {{ x }}"));
        all.add(format!("helpers_{n}"), variant(&helpers, "", body, ""));
        let helpers = joined(n, |i| format!("#[device_fn] fn h{i}(x: f32) -> f32 {{ h{}(x) }}", i + 1));
        all.add(format!("helpers_in_a_row_{n}"), variant(&helpers, "", "h0(logit)", ""));
        let called = joined(n, |i| format!("let x = h{i}(x);"));
        all.add(format!("called_{n}"), transform(&format!("let x = logit; {called} x")));
        let types = joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{i} {{ x: f32 }}"));
        all.add(format!("types_{n}"), variant(&types, "", body, ""));
        let types = joined(n, |i| format!("#[device_type] #[derive(Clone, Copy)] struct S{i} {{ x: S{} }}", i + 1));
        all.add(format!("types_in_a_row_{n}"), variant(&types, "", body, ""));
        let variants = joined(n, |i| format!("V{i},"));
        let items = format!("#[device_type] #[derive(Clone, Copy, PartialEq)] enum E {{ {variants} }}");
        all.add(format!("enum_{n}"), variant(&items, "", body, ""));
        let instances = joined(n, |i| format!("{i},"));
        let text = "#[derive(Clone, VariantParams)] struct V<const N: i32> {}\n#[attention_variant(name = \"v\", \
                    instances(INSTANCES))]\nimpl<const N: i32> AttentionVariant for V<N> {\nfn logits_mask(&self, at: \
                    LogitIndex) -> bool { at.kv_pos < N && at.kv_pos > at.qo_pos - N } }";
        all.add(format!("instances_{n}"), text.replace("INSTANCES", &instances));
        let long = "let x = x + at.kv_pos % 7;".repeat(n.min(1000));
        let body_of = format!("let x = at.qo_pos; {long} x < N");
        let instances = joined(60, |i| format!("{i},"));
        let text = text.replace("at.kv_pos < N && at.kv_pos > at.qo_pos - N", &body_of);
        all.add(format!("long_instances_{n}"), text.replace("INSTANCES", &instances));
        let lets = joined(n, |i| format!("let x{i} = logit;"));
        all.add(format!("lets_{n}"), transform(&format!("{lets} logit")));
        all.add(
            format!("arms_{n}"),
            mask(&format!("match at.kv_pos {{ {} _ => true }}", joined(n, |i| format!("{i} => false,")))),
        );
        all.add(
            format!("patterns_{n}"),
            mask(&format!("match at.kv_pos {{ {} 1 => false, _ => true }}", "1 | ".repeat(n))),
        );
        let elements = "logit,".repeat(n);
        all.add(format!("elements_{n}"), transform(&format!("let a = [{elements}]; a[0]")));
        all.add(format!("arguments_{n}"), transform(&format!("helper({elements})")));
        all.add(format!("mistakes_{n}"), transform(&format!("{} logit", "let y = unknown(zz);".repeat(n))));
        all.add(format!("unknown_methods_{n}"), transform(&format!("{} logit", "logit.unknown_method();".repeat(n))));
        all.add(
            format!("missing_fields_{n}"),
            variant("", &joined(200, |i| format!("a{i}: f32,")), &format!("{} logit", "self.zz;".repeat(n)), ""),
        );
        let hooks = "fn logits_mask(&self, at: LogitIndex) -> bool { at.kv_pos < 3 }\n".repeat(n.min(5000));
        all.add(format!("hooks_{n}"), mask("true").replace("fn logits_mask", &format!("{hooks}fn logits_mask")));
        let impls = joined(n, |i| {
            format!(
                "#[derive(Clone, VariantParams)] struct W{i} {{ n: i32 }}\n\
                 #[attention_variant] impl AttentionVariant for W{i} {{ fn logits_mask(&self, at: LogitIndex) -> bool \
                 {{ at.kv_pos < self.n }} }}\n"
            )
        });
        all.add(format!("variants_{n}"), impls);
        all.add(format!("docs_{n}"), format!("{}{}", "/// A line.\n".repeat(n), mask("true")));
        all.add(
            format!("generics_{n}"),
            variant(
                &format!("#[device_fn] fn f<{}>(x: f32) -> f32 {{ x }}", joined(n, |i| format!("const A{i}: i32,"))),
                "",
                "logit",
                "",
            ),
        );
    }
}
