//! Names of the generated text.
//!
//! What belongs to the variant is told by its ending, so that it can never hide a function of the language:
//! parameters and constants end in `_`, helpers in `_fn`, types in `_type`. Locals keep their names unless those are taken.

use std::collections::HashSet;

/// The name of a field as Rust writes it: raw or not.
#[must_use]
pub fn rust(name: &str, span: proc_macro2::Span) -> syn::Ident {
    match name.strip_prefix("r#") {
        Some(name) => syn::Ident::new_raw(name, span),
        None => syn::Ident::new(name, span),
    }
}

/// The member of a parameter `self.name`: one in capitals shall not meet a constant. The splicer declares it.
#[must_use]
pub fn param(name: &str) -> String {
    if name.chars().any(char::is_lowercase) { member(name) } else { member(&format!("{name}_p")) }
}

/// What is known in advance of dividing by a parameter. The splicer declares it.
#[must_use]
pub fn divisor(name: &str) -> String {
    format!("{}div_", param(name))
}

/// The member of a constant.
#[must_use]
pub fn member(name: &str) -> String {
    format!("{}_", ascii(name))
}

/// The static member function of a `#[device_fn]`.
#[must_use]
pub fn helper(name: &str) -> String {
    format!("{}_fn", ascii(name))
}

/// The struct or enum of a `#[device_type]`.
#[must_use]
pub fn device_type(name: &str) -> String {
    format!("{}_type", ascii(name))
}

/// A field of a struct or a variant of an enum, in a scope of its own: its own name unless C++, or a function there, has it.
#[must_use]
pub fn within_type(name: &str) -> String {
    let name = ascii(name);
    let is_macro = |name: &str| name.starts_with("ATTN_") || name.starts_with("CUD");
    let taken = name.ends_with('_') || name.starts_with("with_") || is_macro(&name) || CPP.contains(&name.as_str());
    let name = if taken { format!("{name}_") } else { name };
    if is_kept(&name) { format!("x{name}") } else { name }
}

/// The function that changes a field.
#[must_use]
pub fn with_field(field: &str) -> String {
    format!("with_{field}")
}

/// The fields of a tuple, and of a tuple struct.
pub const TUPLE_FIELDS: [&str; 4] = ["x", "y", "z", "w"];

/// C++ keeps names that start so for itself: `__int128`, `_Complex`, `__LINE__`.
fn is_kept(name: &str) -> bool {
    name.starts_with("__") || name.starts_with('_') && name[1..].starts_with(char::is_uppercase)
}

/// A name for a local that is neither reserved nor in `taken`; it is added there.
pub fn local(name: &str, taken: &mut HashSet<String>) -> String {
    let plain = ascii(name);
    let plain = plain.trim_end_matches('_');
    let plain = if plain.is_empty() || is_kept(plain) { format!("x{plain}") } else { plain.to_owned() };
    let mut candidate = plain.clone();
    let mut n = 2;
    while taken.contains(&candidate) || is_reserved(&candidate) {
        candidate = format!("{plain}_{n}");
        n += 1;
    }
    taken.insert(candidate.clone());
    candidate
}

/// One line of a comment: no end of line in it that C++ knows, and none that a backslash joins with the next.
#[must_use]
pub fn comment(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.replace("??/", "?/"); // a backslash, once
    line.trim_end_matches(|c: char| c == '\\' || c.is_whitespace()).to_owned()
}

/// A file's name as a literal of C++, for `#line`.
#[must_use]
pub fn file_literal(path: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' };
    format!("\"{}\"", path.chars().map(plain).collect::<String>())
}

/// The identifier without `r#`, other scripts spelt out.
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

fn is_reserved(name: &str) -> bool {
    name.ends_with("_fn")
        || name.ends_with("_type")
        || CPP.contains(&name)
        || LANG.contains(&name)
        || crate::parse::method::METHODS.iter().any(|m| m.name == name)
        || crate::parse::hook::NAMES.contains(&name)
}

/// Words of C++ (those of Rust too: `r#if` is a name), and macros of compilers and common headers.
const CPP: &[&str] = &[
    "break",
    "const",
    "continue",
    "else",
    "enum",
    "extern",
    "false",
    "for",
    "if",
    "return",
    "static",
    "struct",
    "true",
    "while",
    "typeof",
    "restrict",
    "i386",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "atomic_cancel",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "case",
    "catch",
    "char",
    "char8_t",
    "char16_t",
    "char32_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "consteval",
    "constexpr",
    "constinit",
    "const_cast",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "explicit",
    "export",
    "float",
    "friend",
    "goto",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "short",
    "signed",
    "sizeof",
    "static_assert",
    "static_cast",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "xor",
    "xor_eq",
    "linux",
    "unix",
    "NULL",
    "INFINITY",
    "NAN",
    "M_PI",
];

/// Names of lang/lang.cuh that are no methods of Rust's numbers.
const LANG: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "neg",
    "bit_not",
    "bit_and",
    "bit_or",
    "bit_xor",
    "shl",
    "shr",
    "cast_i32",
    "cast_u32",
    "cast_u8",
    "cast_u64",
    "from_bits",
    "approx_tanh",
    "approx_exp",
    "approx_recip",
    "approx_sin_cos",
    "random_uniform",
    "random_bits",
    "div_by",
    "rem_by",
    "div_euclid_by",
    "rem_euclid_by",
    "Divisor",
    "tuple",
    "array",
    "array_of",
    "repeat",
    "Array",
    "u8",
    "u32",
    "u64",
    "R",
    "Pair",
    "Tuple2",
    "Tuple3",
    "Tuple4",
    "RowIndex",
    "LogitIndex",
    "KvIndex",
    "RowState",
    "QueryTile",
    "Tile",
    "TileClass",
    "Tri",
    "Tensor0",
    "Tensor1",
    "Tensor2",
    "Tensor3",
    "Tensor4",
    "Variant",
    "lang",
    "load",
    "clamp_index",
    "log_add_exp",
    "Plain",
    "I32_MIN",
    "F32_INFINITY",
    "F32_NAN",
    "ATTN_FN",
    "ATTN_MATH",
    "ATTN_HOST",
    "ATTN_UNROLL",
    "CUDART_VERSION",
    "CUDA_VERSION",
];

/// The candidate nearest to `name`, if any is near.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (distance(name, c), c))
        .filter(|&(d, c)| d <= 1 + c.len().max(name.len()) / 4)
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c)
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

/// `SoftCap` is `soft_cap`.
#[must_use]
pub fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let starts = c.is_uppercase()
            && i > 0
            && (chars[i - 1].is_lowercase()
                || chars[i - 1].is_ascii_digit()
                || chars.get(i + 1).is_some_and(|n| n.is_lowercase()));
        if starts && !out.ends_with('_') {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
