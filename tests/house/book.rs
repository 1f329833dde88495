//! The documents: links lead somewhere, the book lists its pages, Rust blocks are doctests, files that are named exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use attn::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page, by its path below the repository's root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned).into();
    collect("book/src", &mut pages);
    pages.sort();
    pages
}

fn collect(below: &str, pages: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(below)).expect("a folder").flatten() {
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&path, pages);
        } else if path.ends_with(".md") {
            pages.push(path);
        }
    }
}

/// The lines of a page outside of code fences.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// The targets of a page's links and images, code aside.
fn links(text: &str) -> Vec<String> {
    let text: Vec<&str> = prose(text).collect();
    let text = text.join("\n");
    // code between backticks is no link
    let text: String = text.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let targets = text.match_indices("](").filter_map(|(at, _)| {
        let rest = &text[at + 2..];
        Some(rest[..rest.find(')')?].to_owned())
    });
    targets.collect()
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The anchors of a page. A heading that comes again has a number behind it.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let each = headings.map(|line| {
        let anchor = anchor(line.trim_start_matches('#'));
        let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *count == 0 { anchor } else { format!("{anchor}-{count}") }
    });
    each.collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let below = Path::new(&page).parent().expect("a file is in a folder");
            let target = if file.is_empty() { root().join(&page) } else { root().join(below).join(file) };
            let there = target.exists();
            let heading_there =
                heading.is_empty() || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(heading));
            if !there || !heading_there {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(checked > 40, "only {checked} links were found");
    assert!(broken.is_empty(), "{} broken links:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    assert_eq!(links("[a](b.md) `[c](d)` ![e](f.svg)\n```\n[g](h)\n```\n[i](#j)"), ["b.md", "f.svg", "#j"]);
    let found = anchors("# The `attn` command\n## A\n## A\n```\n# no heading\n```\n");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "a-1", "the-attn-command"]);
}

#[test]
fn summary_lists_every_page() {
    let listed: BTreeSet<String> =
        links(&read("book/src/SUMMARY.md")).into_iter().map(|link| format!("book/src/{link}")).collect();
    let there: BTreeSet<String> =
        pages().into_iter().filter(|page| page.starts_with("book/src/") && !page.ends_with("/SUMMARY.md")).collect();
    assert_eq!(listed, there);
}

#[test]
fn pages_with_rust_blocks_are_doctests() {
    let doctests = read("tests/testing/src/book.rs");
    // a chapter of a crate that the other pages' doctests do not have is a doctest of that crate
    let of_candle = read("bindings/candle/src/lib.rs");
    for page in pages() {
        let rust = read(&page).lines().any(|line| line.trim_start().starts_with("```rust"));
        let tested = doctests.contains(&format!("\"{page}\";")) || of_candle.contains(&format!("../{page}\")]"));
        assert_eq!(rust, tested, "{page}: has Rust blocks: {rust}; is listed in tests/testing/src/book.rs: {tested}");
    }
}

/// Paths of this repository that pages name in code style exist.
#[test]
fn files_that_pages_name_exist() {
    const FOLDERS: [&str; 9] = [
        "attn-core/",
        "attn-kernels/",
        "attn-macros/",
        "benches/",
        "bindings/",
        "serving/",
        "tests/",
        "tools/",
        "variants/",
    ];
    let mut missing = Vec::new();
    for page in pages() {
        let text = read(&page);
        let prose: Vec<&str> = prose(&text).collect();
        for code in prose.join("\n").split('`').skip(1).step_by(2) {
            let path = FOLDERS.iter().any(|folder| code.starts_with(folder));
            let whole =
                !code.contains(['*', '{', ' ', '<', '\n']) && !code.contains("ARCH") && !code.contains("DEVICE");
            if path && whole && !root().join(code).exists() && !root().join(format!("{code}.rs")).exists() {
                missing.push(format!("{page}: {code}"));
            }
        }
    }
    assert!(missing.is_empty(), "{} files are named and do not exist:\n{}", missing.len(), missing.join("\n"));
}

/// The soft cap of Gemma 2, with the accurate tanh.
#[derive(Clone, Debug, VariantParams)]
struct MyCap {
    #[require(cap > 0.0)]
    cap: f32,
}

#[attention_variant(name = "my_cap")]
impl AttentionVariant for MyCap {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.cap * (logit / self.cap).tanh()
    }
}

#[test]
fn readme_shows_the_cuda_of_its_hook() {
    let cuda = attn::cuda_source(&MyCap { cap: 20.0 }.into()).expect("CUDA");
    let readme = read("README.md");
    let shown = readme.split("```cpp\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of C++");
    assert_eq!(shown, cuda, "README shows the first, and the macro writes the second");
}

/// The reference lists every method that the generator has, and no other.
#[test]
fn the_reference_lists_every_method() {
    let page = include_str!("../../book/src/reference/language.md");
    let section = page.split("## Methods\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let mut listed: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
    let mut known: Vec<&str> = attn_codegen::methods::METHODS.iter().map(|method| method.name).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}
