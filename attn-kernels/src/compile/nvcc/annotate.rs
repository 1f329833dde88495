//! Adds `__device__` to every function without an execution space.
//!
//! NVRTC has an option that makes such functions device functions; nvcc has none. The scanner understands as much C++
//! as the templates and generated variants use: namespaces, classes, templates, functions, comments, literals.

/// The text with `__device__` where it is missing. Line numbers do not change.
pub(super) fn device_functions(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + source.len() / 50);
    let mut scopes: Vec<Scope> = Vec::new();
    let mut pending = String::new(); // the declaration so far, without comments in front of it
    let mut rest = source;
    while let Some(token) = next_token(rest) {
        let text = &rest[..token];
        rest = &rest[token..];
        if !matches!(scopes.last(), None | Some(Scope::Declarations)) {
            out.push_str(text);
            match text {
                "{" => scopes.push(Scope::Body),
                "}" => drop(scopes.pop()),
                _ => {}
            }
            continue;
        }
        match text {
            "{" => {
                let scope = if is_scope(&pending) { Scope::Declarations } else { Scope::Body };
                out.push_str(&annotated(&pending));
                scopes.push(scope);
                pending.clear();
                out.push('{');
            }
            "}" | ";" => {
                out.push_str(&annotated(&pending));
                pending.clear();
                out.push_str(text);
                if text == "}" {
                    scopes.pop();
                }
            }
            ":" if ["public", "private", "protected"].contains(&pending.trim()) => {
                out.push_str(&pending);
                out.push(':');
                pending.clear();
            }
            // a comment or space between declarations does not start one
            _ if pending.is_empty() && (is_comment(text) || text.trim().is_empty()) => out.push_str(text),
            _ => pending.push_str(text),
        }
    }
    out.push_str(&pending);
    out
}

#[derive(PartialEq)]
enum Scope {
    /// A namespace or a class.
    Declarations,
    /// A function, an initialiser, an enumeration.
    Body,
}

/// Length of the next comment, directive, literal, word, or other character.
fn next_token(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let until = |end: &str| text[1..].find(end).map_or(text.len(), |at| at + 1);
    Some(match first {
        '/' if text.starts_with("//") => until("\n"),
        '/' if text.starts_with("/*") => (until("*/") + 2).min(text.len()),
        '#' => until("\n"),
        '"' | '\'' => {
            let mut escaped = false;
            let close = text.char_indices().skip(1).find(|&(_, c)| {
                let closes = c == first && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            });
            close.map_or(text.len(), |(at, _)| at + 1)
        }
        c if is_word(c) => text.find(|c: char| !is_word(c)).unwrap_or(text.len()),
        c => c.len_utf8(),
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_comment(token: &str) -> bool {
    token.starts_with("//") || token.starts_with("/*") || token.starts_with('#')
}

fn words(declaration: &str) -> impl Iterator<Item = &str> {
    declaration.split(|c| !is_word(c)).filter(|w| !w.is_empty())
}

/// Length of `template <..>` in front.
fn template_header(declaration: &str) -> usize {
    if !declaration.starts_with("template") {
        return 0;
    }
    let mut depth = 0;
    for (at, c) in declaration.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if depth == 1 => {
                let after = &declaration[at + 1..];
                return declaration.len() - after.trim_start().len();
            }
            '>' => depth -= 1,
            _ => {}
        }
    }
    0
}

/// Whether the declaration is of a namespace or a class, so that its `{` opens a scope of declarations.
fn is_scope(declaration: &str) -> bool {
    let plain = &declaration[template_header(declaration)..];
    matches!(words(plain).next(), Some("namespace" | "struct" | "class" | "union")) && !plain.contains('(')
}

fn annotated(declaration: &str) -> String {
    let header = template_header(declaration);
    let (template, plain) = declaration.split_at(header);
    let call = plain.find('(').unwrap_or(plain.len());
    let before = &plain[..call];
    let variable = before.contains('=') && !before.contains("operator");
    let other = [
        "using",
        "typedef",
        "static_assert",
        "alignas",
        "friend",
        "asm",
        "__global__",
        "__device__",
        "ATTN_FN",
        "enum",
    ];
    if call == plain.len() || variable || words(before).any(|word| other.contains(&word)) {
        return declaration.to_owned();
    }
    format!("{template}__device__ {plain}")
}

#[cfg(test)]
mod tests {
    use super::device_functions;

    #[test]
    fn functions_are_marked_and_nothing_else() {
        let cases = [
            ("inline int f(int x) { return g(x); }", "__device__ inline int f(int x) { return g(x); }"),
            (
                "template <class E, int N = f<3>()>\nE h(E x);",
                "template <class E, int N = f<3>()>\n__device__ E h(E x);",
            ),
            ("// a (comment)\nconstexpr int N = f(3);", "// a (comment)\nconstexpr int N = f(3);"),
            (
                "extern \"C\" __global__ void k(int x) { if (x) { y(); } }",
                "extern \"C\" __global__ void k(int x) { if (x) { y(); } }",
            ),
            ("static_assert(sizeof(int) == 4, \"{\");", "static_assert(sizeof(int) == 4, \"{\");"),
            (
                "struct S {\n  int x = {};\n  S(int y) : x(y) {}\n private:\n  \
                 bool operator==(S o) const { return x == o.x; }\n};",
                "struct S {\n  int x = {};\n  __device__ S(int y) : x(y) {}\n private:\n  \
                 __device__ bool operator==(S o) const { return x == o.x; }\n};",
            ),
            (
                "namespace a { enum class E : int { X, Y }; void f(); }",
                "namespace a { enum class E : int { X, Y }; __device__ void f(); }",
            ),
            ("#define M(x) x\nvoid f() {}", "#define M(x) x\n__device__ void f() {}"),
            ("ATTN_FN int f() { return 1; }", "ATTN_FN int f() { return 1; }"),
        ];
        for (source, wanted) in cases {
            assert_eq!(device_functions(source), wanted);
        }
    }
}
