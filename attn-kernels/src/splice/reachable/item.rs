//! An item of CUDA text: a function, a type or a constant at the top level, and its names.

/// What decides whether an item stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It stays: a kernel, or what is not understood.
    Root,
    /// It stays if one of its names is used.
    Named,
    /// An overloaded operator or an assertion: it stays beside the items that it names.
    WithNamed,
}

/// An item.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) kind: Kind,
    pub(super) names: Vec<&'a str>,
    is_kernel: bool,
}

/// A line without the comment at its end.
fn code(line: &str) -> &str {
    line.split("  // ").next().unwrap_or(line).trim_end()
}

/// Whether a line opens the body of an item.
pub(super) fn opens(line: &str) -> bool {
    code(line).ends_with('{')
}

/// Whether a line of an item is its last. Text is formatted: a body is indented, and closed at column 0.
pub(super) fn ends(line: &str, is_open: bool) -> bool {
    line.starts_with('}') || !is_open && !line.starts_with('#') && code(line).ends_with([';', '}'])
}

/// Whether a line calls a macro that defines something.
pub(super) fn is_call_of_macro(line: &str) -> bool {
    let is_macro = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    line.ends_with(')') && line.split_once('(').is_some_and(|(name, _)| is_macro(name))
}

impl<'a> Item<'a> {
    pub(super) fn of(lines: &[&'a str]) -> Self {
        let mut tokens = Vec::new();
        for line in lines.iter().filter(|line| !line.starts_with('#')) {
            tokens.extend(self::tokens(line));
        }
        let head = without_templates(&tokens);
        let is_kernel = head.contains(&"__global__");
        let (kind, names) = match named(head) {
            _ if is_kernel => (Kind::Root, Vec::new()),
            (Kind::Named, names) if names.is_empty() => (Kind::Root, names),
            of => of,
        };
        Item { kind, names, is_kernel }
    }

    /// Of the first line of a macro.
    pub(super) fn defines(line: &'a str) -> Self {
        Item { kind: Kind::Named, names: identifiers(line).skip(1).take(1).collect(), is_kernel: false }
    }

    pub(super) fn undefines(line: &'a str) -> Self {
        Item { kind: Kind::WithNamed, ..Self::defines(line) }
    }

    /// A macro may define what its arguments name; one of the language's, what the first one names.
    pub(super) fn call_of_macro(line: &'a str) -> Self {
        let most = if line.starts_with("ATTN_") { 1 } else { usize::MAX };
        let names: Vec<_> = identifiers(line).skip(1).take(most).collect();
        let kind = if names.is_empty() { Kind::Root } else { Kind::Named };
        Item { kind, names, is_kernel: false }
    }

    pub(super) fn is_kernel(&self) -> bool {
        self.is_kernel
    }
}

/// The kind and the names of an item.
fn named<'a>(head: &[&'a str]) -> (Kind, Vec<&'a str>) {
    let root = (Kind::Root, Vec::new());
    match head.first() {
        None | Some(&("extern" | "typedef" | "namespace" | "asm")) => return root,
        Some(&"static_assert") => {
            return (Kind::WithNamed, head.iter().copied().filter(|t| is_identifier(t)).collect());
        }
        // its values may be named without it
        Some(&"enum") => return (Kind::Named, head[1..].iter().copied().filter(|t| is_identifier(t)).collect()),
        Some(&("struct" | "class" | "union")) => {
            let mut words = skipping_attributes(head[1..].iter().copied());
            return (Kind::Named, words.find(|word| is_identifier(word)).into_iter().collect());
        }
        Some(&"using") => {
            let is_alias = head.get(2) == Some(&"=");
            return if is_alias { (Kind::Named, vec![head[1]]) } else { root };
        }
        Some(_) => {}
    }
    // the name of a function stands before its first parenthesis, that of a constant before `=`
    let (mut names, mut depth, mut previous) = (Vec::new(), 0u32, Vec::<&str>::new());
    for token in skipping_attributes(head.iter().copied()) {
        match token {
            "operator" => {
                let signature = head.iter().take_while(|token| **token != "{");
                return (Kind::WithNamed, signature.filter(|token| is_identifier(token)).copied().collect());
            }
            "(" if depth == 0 && names.is_empty() => return (Kind::Named, last_name(&previous).into_iter().collect()),
            "=" | "[" | "{" | ";" if depth == 0 => {
                names.extend(last_name(&previous).filter(|name| !names.contains(name)));
                if token == "{" && !previous.is_empty() {
                    depth += 1;
                }
                // more constants may follow a comma
                previous.clear();
            }
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => previous.clear(),
            _ if depth == 0 => previous.push(token),
            _ => {}
        }
    }
    (Kind::Named, names)
}

/// The last name of some tokens, before arguments of a specialisation; of a member that of its type.
fn last_name<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let mut end = tokens.len();
    loop {
        if tokens.get(end.checked_sub(1)?) == Some(&">") {
            let mut open = 0u32;
            while end > 0 {
                end -= 1;
                match tokens[end] {
                    ">" => open += 1,
                    "<" => open -= 1,
                    _ => {}
                }
                if open == 0 {
                    break;
                }
            }
        }
        let name = *tokens.get(end.checked_sub(1)?)?;
        if end >= 2 && tokens[end - 2] == "::" {
            end -= 2;
            continue;
        }
        return is_identifier(name).then_some(name);
    }
}

/// The tokens without attributes that have arguments.
fn skipping_attributes<'a>(tokens: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let (mut attribute, mut depth) = (false, 0u32);
    tokens.filter(move |token| {
        if depth == 0 && ["alignas", "__align__", "__launch_bounds__", "decltype"].contains(token) {
            attribute = true;
            return false;
        }
        if !attribute {
            return true;
        }
        match *token {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        attribute = depth > 0;
        false
    })
}

/// The tokens behind `template <..>`.
fn without_templates<'t, 'a>(mut tokens: &'t [&'a str]) -> &'t [&'a str] {
    while tokens.first() == Some(&"template") {
        let (mut angles, mut parentheses, mut end) = (0u32, 0u32, tokens.len());
        for (at, token) in tokens.iter().enumerate().skip(1) {
            match *token {
                "(" => parentheses += 1,
                ")" => parentheses -= 1,
                "<" if parentheses == 0 => angles += 1,
                ">" if parentheses == 0 => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                end = at + 1;
                break;
            }
        }
        tokens = &tokens[end..];
    }
    tokens
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The identifiers of a line, without those of its comment.
pub(super) fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    tokens(line).filter(|token| is_identifier(token))
}

/// The tokens of a line, without comments and strings: words and numbers, `::`, other characters one by one.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.starts_with("//") {
                return None;
            }
            let first = rest.chars().next()?;
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if first == '"' {
                // no string of a template has an escaped quote
                let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
                rest = &rest[end..];
                continue;
            }
            let length = if word(first) {
                rest.find(|c| !word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            let token;
            (token, rest) = rest.split_at(length);
            return Some(token);
        }
    })
}
