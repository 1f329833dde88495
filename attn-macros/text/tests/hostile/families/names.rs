//! Names of many letters of one to three bytes, and long runs of one character.

use super::source::{Texts, mask, transform, variant};

pub(super) fn add(all: &mut Texts) {
    for letters in [100, 128, 129, 1000, 100_000, 900_000] {
        for letter in ["a", "é", "字"] {
            let name = letter.repeat(letters / letter.len());
            all.add(format!("local_{letter}_{letters}"), transform(&format!("let {name} = logit; {name}")));
            all.add(format!("field_{letter}_{letters}"), variant("", &format!("{name}: f32"), "logit", ""));
            all.add(
                format!("unknown_{letter}_{letters}"),
                transform(&format!("logit + {name}(logit) + self.{name} + at.{name} as f32 + logit.{name}()")),
            );
            all.add(
                format!("struct_{letter}_{letters}"),
                transform("logit").replace(" V ", &format!(" {} ", name.to_uppercase())),
            );
            all.add(format!("hook_{letter}_{letters}"), mask("true").replace("logits_mask", &name));
            all.add(format!("lifetime_{letter}_{letters}"), transform(&format!("'{name}: loop {{}}")));
            all.add(
                format!("named_{letter}_{letters}"),
                mask("true").replace("#[attention_variant]", &format!("#[attention_variant(name = \"{name}\")]")),
            );
            all.add(format!("doc_{letter}_{letters}"), format!("/// {name}\n{}", mask("true")));
            all.add(
                format!("string_{letter}_{letters}"),
                variant("", &format!("#[doc = \"{name}\"] a: f32"), "logit", ""),
            );
        }
    }
    all.add("control", transform("let x\u{200b} = logit; x"));
    all.add("right_to_left", format!("// \u{202e}\n{}", mask("true")));
    all.add("zero", "\0".repeat(1000));
    all.add("brackets", "((((".repeat(100_000));
    all.add("quotes", "\"".repeat(100_001));
    all.add("slashes", "/*".repeat(100_000));
    all.add("hashes", format!("r{}", "#".repeat(500_000)));
    all.add("semicolons", transform(&";".repeat(900_000)));
    all.add("commas", transform(&format!("helper({})", ",".repeat(100_000))));
    all.add("colons", transform(&format!("a{}", "::a".repeat(50_000))));
    all.add("spaces", " ".repeat(2_000_000));
    all.add("lines", "\n".repeat(1_000_000));
}
