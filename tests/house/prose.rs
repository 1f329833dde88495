//! ARCHITECTURE's sentences, the lengths of the front pages, and the glossary's words of our own.

use crate::files::read;

/// A sentence of ARCHITECTURE has fewer words than this.
const WORDS: usize = 45;

/// Words of our own that the glossary may keep.
const OWN_WORDS: usize = 25;

/// The sentences of a Markdown text. A heading, a list item, a table row and a fence end the sentence before them.
fn sentences(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        let fence = line.starts_with("```");
        fenced ^= fence;
        let heading = line.starts_with('#');
        let item = ["- ", "* ", "> ", "|"].iter().any(|start| line.starts_with(start)) || heading;
        if fence || fenced || line.is_empty() || item {
            blocks.push(String::new());
        }
        if !(fence || fenced || line.starts_with('|')) {
            let block = blocks.last_mut().expect("one at least");
            block.push_str(line.trim_start_matches(['-', '#', '>']));
            block.push(' ');
        }
        if heading {
            blocks.push(String::new());
        }
    }
    let ends = [". ", "! ", "? ", ".) ", ".** "]; // in Markdown, bold may end with the sentence
    let mut sentences = Vec::new();
    for block in blocks {
        let mut rest = block.as_str();
        while let Some(at) = ends.iter().filter_map(|end| rest.find(end).map(|at| at + end.len())).min() {
            sentences.push(rest[..at].trim().to_owned());
            rest = &rest[at..];
        }
        sentences.push(rest.trim().to_owned());
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[test]
fn sentences_end_at_full_stops_and_blocks() {
    let text =
        "# Title\nOne two. Three\nfour.\n- item one\n- item two\n\n```\ncode. code.\n```\n| a. | b. |\n**Bold.** End";
    let want = ["Title", "One two.", "Three four.", "item one", "item two", "**Bold.**", "End"];
    assert_eq!(sentences(text), want);
}

#[test]
fn architecture_has_short_sentences() {
    let sentences = sentences(&read("ARCHITECTURE.md"));
    assert!(sentences.len() > 50, "only {} sentences were found", sentences.len());
    let words = |sentence: &String| sentence.split_whitespace().filter(|w| w.contains(char::is_alphanumeric)).count();
    let long: Vec<_> = sentences.iter().filter(|sentence| words(sentence) >= WORDS).collect();
    assert!(long.is_empty(), "{} sentences have {WORDS} words or more:\n{long:#?}", long.len());
}

#[test]
fn front_pages_are_short() {
    for (path, most) in [("README.md", 200), ("ARCHITECTURE.md", 160)] {
        let lines = read(path).lines().count();
        assert!(lines <= most, "{path} has {lines} lines, at most {most} are allowed: move text into book/");
    }
}

#[test]
fn glossary_keeps_few_words_of_our_own() {
    let page = read("book/src/glossary.md");
    let section = page.split("\n## ").find(|part| part.starts_with("Words of our own")).expect("## Words of our own");
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with('|') && !line.contains("---"))
        .skip(1)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty(), "the table was not found");
    assert!(rows.len() <= OWN_WORDS, "{} words of our own, at most {OWN_WORDS} are allowed", rows.len());
    for row in rows {
        assert!(
            row.len() >= 3 && row.iter().all(|cell| !cell.is_empty()),
            "word, meaning, equivalent elsewhere: {row:?}"
        );
    }
}
