//! Words in texts, as constant functions.

/// The part of this number of a list that commas separate, if it is one word; else empty.
pub(super) const fn word_at(list: &str, number: usize) -> &[u8] {
    let list = list.as_bytes();
    let (mut part, mut depth, mut from, mut to, mut words) = (0, 0usize, 0, 0, 0);
    let mut at = 0;
    while at < list.len() {
        let c = list[at];
        match c {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == b',' && depth == 0 {
            part += 1;
        } else if part == number && !c.is_ascii_whitespace() {
            if words == 0 || !is_letter(c) || to != at {
                words += 1;
                from = at;
            }
            to = at + 1;
        }
        at += 1;
    }
    if words == 1 { list.split_at(to).0.split_at(from).1 } else { &[] }
}

pub(super) const fn is_letter(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 128
}

pub(super) const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
