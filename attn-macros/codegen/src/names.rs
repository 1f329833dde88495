//! Names in the generated text.
//!
//! Names of the variant have suffixes, so that they never hide a function of the language: parameters and constants end
//! in `_`, helpers in `_fn`, types in `_type`. Locals keep their names unless those are reserved.

mod reserved;

use std::collections::{HashMap, HashSet};

use crate::budget;
use reserved::{CPP, is_reserved};

/// The identifier of a field as Rust writes it, raw or not.
pub fn rust(name: &str, span: proc_macro2::Span) -> syn::Ident {
    match name.strip_prefix("r#") {
        Some(name) => syn::Ident::new_raw(name, span),
        None => syn::Ident::new(name, span),
    }
}

/// The member that holds the parameter `self.name`. A name in capitals gets a suffix, so that it differs from a
/// constant's. The splicer declares it.
pub fn param(name: &str) -> String {
    if name.chars().any(char::is_lowercase) { member(name) } else { member(&format!("{name}_p")) }
}

/// The member that holds the prepared divisor of a parameter. The splicer declares it.
pub fn divisor(name: &str) -> String {
    format!("{}div_", param(name))
}

/// The member that holds a constant.
pub fn member(name: &str) -> String {
    format!("{}_", ascii(name))
}

/// The static member function of a `#[device_fn]`.
pub fn helper(name: &str) -> String {
    format!("{}_fn", ascii(name))
}

/// The struct or enum of a `#[device_type]`.
pub fn device_type(name: &str) -> String {
    format!("{}_type", ascii(name))
}

/// A field of a struct or a variant of an enum. It keeps its name unless C++ or a setter of the struct has it.
pub fn within_type(name: &str) -> String {
    let name = ascii(name);
    let is_macro = |name: &str| name.starts_with("ATTN_") || name.starts_with("CUD");
    let taken = name.ends_with('_') || name.starts_with("with_") || is_macro(&name) || CPP.contains(&name.as_str());
    let name = if taken { format!("{name}_") } else { name };
    if is_kept(&name) { format!("x{name}") } else { name }
}

/// The setter of a field: a function that returns the struct with the field replaced.
pub fn with_field(field: &str) -> String {
    format!("with_{field}")
}

/// The names of the fields of tuples and tuple structs.
pub const TUPLE_FIELDS: [&str; 4] = ["x", "y", "z", "w"];

/// Whether C++ reserves the name: `__int128`, `_Complex`, `__LINE__`.
fn is_kept(name: &str) -> bool {
    name.starts_with("__") || name.starts_with('_') && name[1..].starts_with(char::is_uppercase)
}

/// The names of locals that are in scope, in the order in which they were taken.
#[derive(Debug, Default)]
pub struct Taken {
    names: HashSet<String>,
    order: Vec<String>,
    /// The numbers up to which a name has suffixes, `x_2` and on: looking for a free one from 2 takes quadratic time.
    /// A name that is free again only lowers its number.
    numbered: HashMap<String, usize>,
}

impl Taken {
    /// How many names are taken.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is taken.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Takes a name.
    pub fn take(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.order.push(name.to_owned());
        }
    }

    /// Frees the names that were taken after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        for name in self.order.drain(len.min(self.order.len())..) {
            self.names.remove(&name);
            if let Some((plain, number)) = name.rsplit_once('_')
                && let Some(last) = self.numbered.get_mut(plain)
                && let Ok(number) = number.parse::<usize>()
            {
                *last = (*last).min(number.saturating_sub(1));
            }
        }
    }

    /// A name for a local that is neither reserved nor taken; takes it.
    pub fn local(&mut self, name: &str) -> String {
        let plain = ascii(name);
        let plain = plain.trim_end_matches('_');
        let plain = if plain.is_empty() || is_kept(plain) { format!("x{plain}") } else { plain.to_owned() };
        let mut candidate = plain.clone();
        if self.names.contains(&candidate) || is_reserved(&candidate) {
            let mut n = self.numbered.get(&plain).copied().unwrap_or(1);
            while self.names.contains(&candidate) || is_reserved(&candidate) {
                n += 1;
                candidate = format!("{plain}_{n}");
            }
            self.numbered.insert(plain, n);
        }
        self.take(&candidate);
        candidate
    }
}

/// One line of a comment, without C++ line ends, and without a final backslash, which would join it with the next line.
pub fn comment(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.replace("??/", "?/"); // a backslash, once
    line.trim_end_matches(|c: char| c == '\\' || c.is_whitespace()).to_owned()
}

/// Lines as comments that begin with `mark`, each on a line of its own.
pub fn comments(mark: &str, lines: &[String]) -> String {
    lines.iter().map(|line| format!("{}\n", comment(&format!("{mark} {line}")))).collect()
}

/// The directive after which compilers name a place in the user's file.
pub fn line_directive(at: proc_macro2::Span, file: &str) -> String {
    format!("#line {} {}\n", at.start().line.max(1), file_literal(file))
}

/// A file name as a C++ string literal, for `#line`.
pub fn file_literal(path: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' };
    format!("\"{}\"", path.chars().map(plain).collect::<String>())
}

/// The identifier without `r#`, with characters outside of ASCII spelt as code points.
fn ascii(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    name.chars().fold(String::new(), |mut s, c| {
        if c.is_ascii() {
            s.push(c);
        } else {
            s.push_str(&format!("u{:x}_", u32::from(c)));
        }
        s
    })
}

/// The candidate nearest to `name`, if one is near enough for a hint.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        // the distance is at least the difference of the lengths, and takes the time of their product
        .filter(|c| c.len().abs_diff(name.len()) <= 1 + c.len().max(name.len()) / 4)
        .filter(|c| budget::spend(c.len() * name.len() / 16))
        .map(|c| (strsim::osa_distance(name, c), c))
        .filter(|&(d, c)| d <= 1 + c.len().max(name.len()) / 4)
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c)
}
