//! Names that this repository had once and has no longer: `tests/house/retired_names.txt`.

use regex::Regex;

use crate::files::{Source, read, sources};

const LIST: &str = "tests/house/retired_names.txt";

/// Pages that name what is retired: the history, and the glossary.
const EXEMPT: [&str; 2] = ["CHANGELOG.md", "book/src/glossary.md"];

/// The list: regexes of whole identifiers, and phrases in lower case.
struct Retired {
    identifiers: Regex,
    phrases: Vec<String>,
}

impl Retired {
    /// Lines are `identifier REGEX`, `phrase WORDS`, or a comment that begins with `#`.
    fn parse(list: &str) -> Self {
        let (mut identifiers, mut phrases) = (Vec::new(), Vec::new());
        for line in list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("identifier", regex)) => identifiers.push(regex.trim()),
                Some(("phrase", words)) => phrases.push(words.trim().to_lowercase()),
                _ => panic!("{LIST}: neither an identifier nor a phrase: {line}"),
            }
        }
        let identifiers = Regex::new(&format!("^(?:{})$", identifiers.join("|"))).expect(LIST);
        Retired { identifiers, phrases }
    }

    /// What of the list stands in a file.
    fn found_in(&self, source: &Source) -> Vec<String> {
        let mut found = Vec::new();
        let (code, prose) = if source.is_code() { split(&source.text) } else { (String::new(), source.text.clone()) };
        for (i, line) in code.lines().enumerate() {
            let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            for word in words.filter(|word| !word.is_empty() && self.identifiers.is_match(word)) {
                found.push(format!("{}:{}: identifier {word}", source.path, i + 1));
            }
        }
        let prose = words_of(&prose);
        for phrase in self.phrases.iter().filter(|phrase| prose.contains(&format!(" {phrase} "))) {
            found.push(format!("{}: phrase \"{phrase}\"", source.path));
        }
        found
    }
}

/// Lower case, with one space between words and no punctuation, so that a phrase is found across lines.
fn words_of(text: &str) -> String {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '\''))).filter(|w| !w.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" ").to_lowercase())
}

/// Code without comments and strings, line by line, and the comments alone.
fn split(text: &str) -> (String, String) {
    let (mut code, mut prose) = (String::new(), String::new());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            prose.push_str(rest[..length].trim_start_matches(['/', '!']));
            prose.push('\n');
            length
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |at| at + 2);
            prose.push_str(&rest[..length]);
            prose.push('\n');
            length
        } else if let Some(length) = string_length(rest) {
            length
        } else {
            code.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        code.push(' ');
        rest = &rest[length..];
    }
    (code, prose)
}

/// The length of the string or character literal at the beginning of a text.
fn string_length(text: &str) -> Option<usize> {
    if let Some(after) = text.strip_prefix('r') {
        let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
        if after[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = 1 + hashes + 1;
            return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
        }
        return None;
    }
    if text.starts_with("'\"'") || text.starts_with("'\\\"'") {
        return text[1..].find('\'').map(|at| at + 2);
    }
    if !text.starts_with('"') {
        return None;
    }
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some((at + 1).min(text.len()))
}

#[test]
fn no_retired_name_is_left() {
    let retired = Retired::parse(&read(LIST));
    let checked = sources().into_iter().filter(|source| !EXEMPT.contains(&source.path.as_str()));
    let found: Vec<String> = checked.flat_map(|source| retired.found_in(&source)).collect();
    assert!(found.is_empty(), "{} retired names:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_names_are_found_where_they_stand() {
    let retired = Retired::parse("# a comment\nidentifier weigh_[a-z]+\nidentifier Old\nphrase gone words\n");
    let of = |path: &str, text: &str| retired.found_in(&Source { path: path.to_owned(), text: text.to_owned() });
    assert_eq!(of("a.rs", "let x = 1;\nfn weigh_tile(p: Old) {}").len(), 2);
    assert_eq!(of("a.rs", "// the gone\n// words, here\nlet x = \"Old weigh_x\";").len(), 1);
    assert_eq!(of("a.md", "The *gone\nwords* of an Old.").len(), 1);
    assert_eq!(of("a.cuh", "int Older; // weigh_tile in a comment is prose").len(), 0);
    assert_eq!(of("a.rs", "let s = r#\"Old \"quoted\" Old\"#; let c = '\"'; Old").len(), 1);
}
