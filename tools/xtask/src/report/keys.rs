//! The keys in rows of results: of the text of a kernel (`key`, of checks `keys`), or of its code (`code`, `codes`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The digits of a key that a summary keeps.
const DIGITS: usize = 12;

/// The first digits of a key.
fn short(key: &str) -> Option<String> {
    key.get(..DIGITS).map(str::to_owned)
}

/// The keys of a row: those of `key`, or those of `code`.
pub(super) fn of_row<'a>(row: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let many = row[format!("{field}s")].as_array().into_iter().flatten();
    many.chain(row.get(field)).filter_map(Value::as_str)
}

/// Puts keys into a row in place of those of its field; a row of checks has a list.
fn put(row: &mut Value, field: &str, keys: &BTreeSet<String>) {
    let checks = row["passed"].is_u64();
    let (field, value) = match keys.first() {
        _ if checks => (format!("{field}s"), json!(keys)),
        key => (field.to_owned(), json!(key)),
    };
    let Some(row) = row.as_object_mut() else { return };
    if keys.is_empty() {
        row.remove(&field);
    } else {
        row.insert(field, value);
    }
}

/// Puts the keys of raw rows into the row that is kept of them: of each its code keys, or its text keys if it has none.
pub(super) fn keep<'a>(kept: &mut Value, raw: impl IntoIterator<Item = &'a Value>) {
    let (mut texts, mut codes) = (BTreeSet::new(), BTreeSet::new());
    for row in raw {
        let mut of_code = of_row(row, "code").filter_map(short).peekable();
        if of_code.peek().is_none() {
            texts.extend(of_row(row, "key").filter_map(short));
        }
        codes.extend(of_code);
    }
    put(kept, "key", &texts);
    put(kept, "code", &codes);
}

/// The lines of `attn keys`: text keys, with the code keys of `attn keys --code`.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, Option<String>>> {
    let keys = |line: &str| {
        let record: Value = serde_json::from_str(line).with_context(|| format!("not a line of `attn keys`: {line}"))?;
        let of = |field: &str| record[field].as_str().and_then(short);
        Ok((of("key").with_context(|| format!("a line without a key: {line}"))?, of("code")))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(keys).collect()
}

/// Replaces the text keys of a row by the code keys that `codes` has for them. Returns how many it has, and how many
/// remain.
pub(super) fn rekey(row: &mut Value, codes: &BTreeMap<String, Option<String>>) -> (usize, usize) {
    let mut all: BTreeSet<String> = of_row(row, "code").map(str::to_owned).collect();
    let (mut proven, mut remaining) = (0, BTreeSet::new());
    for key in of_row(row, "key") {
        match codes.get(key) {
            Some(Some(code)) => {
                all.insert(code.clone());
                proven += 1;
            }
            _ => _ = remaining.insert(key.to_owned()),
        }
    }
    if proven > 0 {
        put(row, "key", &remaining);
        put(row, "code", &all);
    }
    (proven, remaining.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keys_become_the_code_keys_that_are_proven() {
        let lines = "{\"key\":\"aaaaaaaaaaaa01\",\"code\":\"111111111111ff\"}\n\n{\"key\":\"bbbbbbbbbbbb23\"}\n";
        let codes = read(lines).expect("lines");
        let mut timed = json!({"case": "x", "us": 2.0, "key": "aaaaaaaaaaaa"});
        assert_eq!(rekey(&mut timed, &codes), (1, 0));
        assert_eq!(timed, json!({"case": "x", "us": 2.0, "code": "111111111111"}));
        assert_eq!(rekey(&mut timed, &codes), (0, 0), "once");

        let mut checks = json!({"passed": 3, "keys": ["aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"]});
        assert_eq!(rekey(&mut checks, &codes), (1, 2));
        let rest = ["bbbbbbbbbbbb", "cccccccccccc"];
        assert_eq!(checks, json!({"passed": 3, "keys": rest, "codes": ["111111111111"]}));
        assert!(read("{\"key\":\"ab\"}").is_err() && read("nothing").is_err());
    }

    #[test]
    fn no_text_key_is_kept_where_a_code_key_is() {
        let raw = [
            json!({"key": "aaaaaaaaaaaa01", "code": "111111111111ff"}),
            json!({"keys": ["bbbbbbbbbbbb23"], "codes": ["222222222222ff", "111111111111ff"]}),
            json!({"key": "cccccccccccc45"}),
        ];
        let mut checks = json!({"passed": 3});
        keep(&mut checks, &raw);
        let codes = ["111111111111", "222222222222"];
        assert_eq!(checks, json!({"passed": 3, "keys": ["cccccccccccc"], "codes": codes}));
        let mut timed = json!({"case": "x"});
        keep(&mut timed, &raw[..1]);
        assert_eq!(timed, json!({"case": "x", "code": "111111111111"}));
    }
}
