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

/// The text with the structs of `structs!(A B)` at its end, so that lines stay: Rust text has no macros.
fn written_out(text: &str) -> String {
    let Some((_, rest)) = text.split_once("structs!(") else { return text.to_owned() };
    let (names, _) = rest.split_once(");").expect("closed");
    let structs = names.split_whitespace().map(|name| {
        format!("#[derive(Clone, VariantParams)]\nstruct {name} {{ a: f32, n: i32, u: u32, flag: bool }}\n")
    });
    let lines = "\n".repeat(names.matches('\n').count());
    let plain = text.replace("include!(\"../structs.rs\");", "").replace(&format!("structs!({names});"), &lines);
    plain + &structs.collect::<String>()
}

#[test]
fn each_mistake_has_the_message_and_the_place_that_rustc_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/ui/fail");
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
        let found = mistakes(name, &written_out(&fs::read_to_string(&path).expect("text")));
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

#[test]
fn a_file_name_is_one_string_of_a_line_directive() {
    let names = [
        "x\"\n#include \"/etc/passwd\"\n__device__ int injected;\n//",
        "x\r#error a",
        "x\\",
        "x\u{2028}y\u{85}z",
        "x\"y",
        "x\0y",
        "a b/é.rs",
    ];
    let items = "#[device_fn] fn twice(x: i32) -> i32 { 2 * x }\n#[device_type] #[derive(Clone, Copy)] struct Two { \
                 x: i32 }\n";
    for name in names {
        let text = items.to_owned() + &mask("{ let two = Two { x: twice(at.kv_pos) }; two.x < self.n }");
        let variants = load(&[(name, &text)]).expect("no mistake");
        let desc = variants[0];
        let helpers = desc.device_fns.iter().map(|helper| helper.cuda);
        let types = desc.types.iter().map(|link| link.ty.cuda);
        let texts: Vec<&str> = desc.hooks.iter().map(|hook| hook.cuda).chain(helpers).chain(types).collect();
        assert_eq!(texts.len(), 3, "a hook, a helper and a type");
        for line in texts.iter().flat_map(|text| text.lines()).filter(|line| line.trim_start().starts_with('#')) {
            let file = line.strip_prefix("#line ").and_then(|rest| rest.split_once(' ')).map(|(_, file)| file);
            let plain = file.and_then(|file| file.strip_prefix('"')?.strip_suffix('"'));
            let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() && c != '"' && c != '\\';
            assert!(
                plain.is_some_and(|plain| plain.starts_with(['x', 'a']) && plain.chars().all(is_plain)),
                "{line:?}"
            );
        }
        for text in texts {
            assert!(!text.lines().any(|line| line.trim_start().starts_with("__device__")), "{text}");
        }
    }
}

#[test]
fn a_text_over_a_budget_is_refused_with_its_limit() {
    let says = |text: &str| load(&[("long.rs", text)]).expect_err("over a budget").to_string();
    let long = says(&" ".repeat((1 << 20) + 1));
    assert!(long.contains("1048577 bytes") && long.contains("at most 1048576: load the variants in several"), "{long}");
    let long = load(&[(&"n".repeat(2000), "")]).expect_err("a long name").to_string();
    assert!(long.contains("2000 bytes in the name of a file") && long.len() < 300, "{long}");
    let tokens = says(&format!("const A: [i32; 1] = [{}];", "1,".repeat(100_000)));
    assert!(tokens.contains("words and signs") && tokens.contains("131072"), "{tokens}");
    let item = says(&mask(&format!("{} true", "at.kv_pos < 3;".repeat(10_000))));
    assert!(item.contains("32768 words and signs") && item.contains("#[device_fn]"), "{item}");
    let steps = says(&mask(&format!("{} true", "let a = b::X;".repeat(2000))));
    assert!(steps.contains("does not know") || steps.contains("no constant") || steps.contains("steps"), "{steps}");
    let name = says(&mask(&format!("at.{} < 3", "k".repeat(500))));
    assert!(name.contains("a name has at most 128 letters; this one has 500"), "{name}");
    let number = says(&mask(&format!("at.kv_pos < {}", "1".repeat(500))));
    assert!(number.contains("a number has at most 128 digits; this one has 500"), "{number}");
    let tuples = (1..20).map(|i| format!("let a{i} = (a{j}, a{j});", j = i - 1)).collect::<String>();
    let tuples = says(&mask(&format!("let a0 = at.kv_pos; {tuples} true")));
    assert!(tuples.contains("a tuple in a hook has at most 64 parts"), "{tuples}");
    let array = says(&mask("let a = [at.kv_pos; 5000]; a[0] < 3"));
    assert!(array.contains("an array in a hook has at most 4096 elements"), "{array}");
    let instances: String = (0..65).map(|i| format!("{i},")).collect();
    let generic = mask("at.kv_pos < N")
        .replace("struct Mine", "struct Mine<const N: i32>")
        .replace("impl AttentionVariant for Mine", "impl<const N: i32> AttentionVariant for Mine<N>")
        .replace("#[attention_variant]", &format!("#[attention_variant(name = \"v\", instances({instances}))]"));
    let generic = says(&generic);
    assert!(generic.contains("at most 64 instances; this one has 65"), "{generic}");
    let helpers: String = (1..20)
        .map(|i| format!("#[device_fn] fn h{i}(x: i32) -> i32 {{ h{j}(x) / 2 + h{j}(x + 1) / 2 }}\n", j = i - 1))
        .collect();
    let helpers = format!("#[device_fn] fn h0(x: i32) -> i32 {{ x }}\n{helpers}{}", mask("h19(at.kv_pos) < 3"));
    let helpers = says(&helpers);
    assert!(helpers.contains("once what it uses is written in its place") && helpers.contains("65536"), "{helpers}");
    assert_eq!(helpers.lines().count(), 1, "the first that is too large: {helpers}");
}

#[test]
fn a_refused_text_leaves_no_memory_and_no_lock() {
    let resident = || {
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
    };
    // 100 KB each, refused after helpers and types were made
    let refuse = |i: usize| {
        let helpers: String = (0..20).map(|n| format!("#[device_fn] fn h{n}(x: i32) -> i32 {{ x + {n} }}\n")).collect();
        let text = format!(
            "// {}\n{helpers}{}",
            "x".repeat(100_000),
            mask(&format!("h{}(at.kv_pos) < self.missing{i}", i % 20))
        );
        load(&[("refused.rs", &text)]).expect_err("no such field");
    };
    (0..10).for_each(refuse);
    let before = resident();
    (10..110).for_each(refuse);
    let grown = resident().saturating_sub(before);
    assert!(grown < 5000, "100 texts of 100 KB left {grown} KB");
    // texts are read at the same time
    std::thread::scope(|scope| {
        (0..4).for_each(|i| drop(scope.spawn(move || refuse(1000 + i))));
    });
}

#[test]
fn a_message_is_an_excerpt() {
    let text = mask("true").replace("n: i32", &format!("n: [{}; 3]", "(f32, ".repeat(40) + "f32" + &")".repeat(40)));
    let long = mistakes("long.rs", &text).iter().map(|mistake| mistake.message.len()).max().expect("a mistake");
    assert!(long <= 4100, "{long}");
}

#[test]
fn language_mistakes_are_told_in_the_words_of_the_user() {
    let says = |text: &str| mistakes("mine.rs", text).iter().map(|m| m.message.clone()).collect::<Vec<_>>().join("\n");
    for call in ["Causal.logits_mask(at)", "Causal::logits_mask(&Causal, at)", "attn::stock::Causal.logits_mask(at)"] {
        let said = says(&mask(call));
        assert!(said.contains("a hook does not call hooks of a variant: compose the variants"), "{call}: {said}");
    }
    let said = says(&mask("let LogitIndex { kv_pos, .. } = at; kv_pos < 3"));
    assert!(said.contains("an index is not taken apart") && said.lines().count() == 1, "{said}");
    let said = says(
        &mask("true").replace("n: i32", "#[shape(batch)] out: OutTensor1").replace("true", "self.out[at.batch] > 0.0"),
    );
    assert!(said.contains("an output tensor is written by hooks and not read"), "{said}");
    let said = says(&mask("let mut x = 0; #[unroll(0)] for i in 0..3 { x = x + i; } x < at.kv_pos"));
    assert!(said.contains("a number from 1 to 255"), "{said}");
    let query =
        mask("true").replace("true", "true }\n    fn sink_logit(&self, at: RowIndex) -> f32 { at.kv_pos as f32");
    let said = says(&query);
    assert!(said.contains("no `kv_pos` here: this is of queries alone, with no key yet; there are `batch`"), "{said}");
    assert!(!said.contains("did you mean"), "{said}");
}
