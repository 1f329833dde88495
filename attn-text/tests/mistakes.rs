//! Mistakes in Rust text have the messages, lines and columns that rustc shows for the same file.

use std::{fs, path::Path};

use attn_text::{Diagnostic, TextError, load};

/// The errors of macros in what rustc printed: those without a code of rustc's own, and those of constants that macros
/// make.
fn expected(stderr: &str) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    let mut lines = stderr.lines().peekable();
    while let Some(line) = lines.next() {
        // of these constants, text has no renamed imports, and reads enums by itself
        let here = |message: &&str| !message.contains("was renamed by") && !message.contains("the values of an enum");
        let of_constant = || line.strip_prefix("error[E0080]: evaluation panicked: ").filter(here);
        let Some(message) = line.strip_prefix("error: ").or_else(of_constant) else { continue };
        if message.starts_with("use of deprecated") {
            continue; // a lint, which rustc alone has
        }
        let Some(location) = lines.next_if(|line| line.trim_start().starts_with("--> ")) else { continue };
        let mut location = location.rsplit(':');
        let mut number = || location.next().and_then(|text| text.parse().ok()).expect("a line and a column");
        let column = number();
        found.push((number(), column, message.to_owned()));
    }
    found
}

fn mistakes(name: &str, text: &str) -> Vec<Diagnostic> {
    match load(&[(name, text)]) {
        Err(TextError::Rust(mistakes)) => mistakes,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn each_mistake_has_the_message_and_the_place_that_rustc_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ui/fail");
    let (mut files, mut messages) = (0, 0);
    for entry in fs::read_dir(folder).expect("the folder of mistakes") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let stderr = fs::read_to_string(path.with_extension("stderr")).expect("what rustc prints");
        let wanted = expected(&stderr);
        if wanted.is_empty() {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let found = mistakes(name, &fs::read_to_string(&path).expect("text"));
        for (line, column, message) in wanted {
            let same = |d: &Diagnostic| (d.line, d.column) == (line, column) && d.message == message;
            assert!(found.iter().any(same), "{name}:{line}:{column}: {message}\nfound:\n{found:#?}");
            messages += 1;
        }
        files += 1;
    }
    assert!(files >= 10 && messages >= 10, "{messages} messages of {files} files");
}

/// A variant with this body of `logits_mask`.
fn mask(body: &str) -> String {
    format!(
        "use attn::prelude::*;\n#[derive(Clone, VariantParams)]\nstruct Mine {{ n: i32 }}\n#[attention_variant]\n\
         impl AttentionVariant for Mine {{\n    fn logits_mask(&self, at: LogitIndex) -> bool {{\n        \
         {body}\n    }}\n}}\n"
    )
}

#[test]
fn what_rustc_would_find_is_found() {
    let says = |text: &str| mistakes("mine.rs", text).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(says(&mask("at.kv_pos < self.m")), "mine.rs:7:26: no field `m` on this variant; there are: `n`");
    assert!(says(&mask("at.kv_pos < LIMIT")).starts_with("mine.rs:7:21: the text has no constant `LIMIT` of type"));
    assert_eq!(
        says(&mask("near(at.kv_pos, self.n)")),
        "mine.rs:7:9: the text has no function `near` with `#[device_fn]`"
    );
    assert!(says(&mask("at.kv_pos < ")).starts_with("mine.rs:"), "text that does not parse");
    assert!(says("fn \"").starts_with("mine.rs:1:"), "text that is no tokens");
    let deep = mask(&format!("{}at.kv_pos < 1{}", "(".repeat(50_000), ")".repeat(50_000)));
    assert!(says(&deep).contains("mine.rs:"), "text that is nested too deeply");
    // what contains itself: rustc refuses it, and reading it ends
    let itself = mask("Loop { x: at.kv_pos, of: 1 }.x < 3") + "#[device_type]\nstruct Loop { x: i32, of: Loop }\n";
    assert!(says(&itself).contains("the text has no type `Loop`"), "{}", says(&itself));
    let missing = mask("true").replace("struct Mine", "struct Other");
    assert_eq!(says(&missing), "mine.rs:5:27: the text has no struct `Mine`");
    let wrong_type = mask("true").replace("n: i32", "n: String");
    assert!(says(&wrong_type).contains("mine.rs:3:18"), "{}", says(&wrong_type));
    assert!(matches!(load(&[("empty.rs", "const A: i32 = 1;")]), Err(TextError::Empty { .. })));
}

#[test]
fn hooks_of_the_host_are_refused_by_name() {
    let text = mask("true")
        .replace("fn logits_mask", "fn kv_range(&self, _tile: QueryTile) -> (i32, i32) { (0, 9) }\n    fn logits_mask");
    let variants = load(&[("range.rs", &text)]).expect("the text has no mistake");
    let mut registry = attn_core::Registry::empty();
    registry.register_all(&variants).expect("one name");
    let error = attn_core::Variant::parse_with("mine(n=1)", &registry).expect_err("a hook of the host");
    assert!(error.to_string().contains("hook `kv_range` of `mine` runs on the host too"), "{error}");
}

#[test]
fn a_text_that_changed_takes_the_place_of_its_variant_and_of_no_compiled_one() {
    let mut registry = attn_core::Registry::empty();
    for body in ["at.kv_pos <= self.n", "at.kv_pos >= self.n"] {
        let variants = load(&[("changing.rs", &mask(body))]).expect("no mistake");
        registry.register_all(&variants).expect("a text's variant gives way to the next text");
        assert!(std::ptr::eq(registry.get("mine").expect("registered"), variants[0]));
    }
    let text = mask("true").replace("#[attention_variant]", "#[attention_variant(name = \"causal\")]");
    let mut stock = attn_core::Registry::clone(&*attn_core::Registry::global().expect("linked"));
    stock.register_all(attn_variants::variants()).expect("stock variants");
    let error = stock.register_all(&load(&[("causal.rs", &text)]).expect("no mistake")).expect_err("a compiled one");
    assert!(error.to_string().contains("two variants are called `causal`"), "{error}");
}

#[test]
fn a_text_is_read_once() {
    let text = mask("at.kv_pos <= at.qo_pos + self.n");
    let [first, second] = [0, 1].map(|_| load(&[("once.rs", &text)]).expect("no mistake"));
    assert!(std::ptr::eq(first[0], second[0]));
    assert!(first[0].hooks[0].cuda.contains("#line 6 \"once.rs\""), "{}", first[0].hooks[0].cuda);
}

#[test]
fn a_kv_format_is_no_rust_text() {
    let text = "struct Mine;\n#[kv_format]\nimpl KvFormat for Mine {}\n";
    let error = load(&[("mine.rs", text)]).expect_err("a format").to_string();
    assert!(error.contains("mine.rs:3:19") && error.contains("a KV format is compiled into the program"), "{error}");
}
