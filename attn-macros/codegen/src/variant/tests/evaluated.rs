//! Every pair of operators, on both sides and in compound assignments, has the value in C++ that it has in Rust. Both
//! texts are evaluated here, each with the precedence of its language.

use std::collections::HashMap;

use super::*;

/// A number, or a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Int(i32),
    Float(f32),
    Bool(bool),
}

/// A binary operation as Rust's and as C++'s; the functions of lang/lang.cuh have the same names here.
fn operation(symbol: &str, a: Value, b: Value) -> Value {
    use Value::{Bool, Float, Int};
    match (symbol, a, b) {
        ("+" | "add", Int(a), Int(b)) => Int(a.wrapping_add(b)),
        ("-" | "sub", Int(a), Int(b)) => Int(a.wrapping_sub(b)),
        ("*" | "mul", Int(a), Int(b)) => Int(a.wrapping_mul(b)),
        ("/" | "div", Int(a), Int(b)) => Int(a.checked_div(b).unwrap_or(0)),
        ("%" | "rem", Int(a), Int(b)) => Int(a.checked_rem(b).unwrap_or(0)),
        ("<<" | "shl", Int(a), Int(b)) => Int(a.wrapping_shl(b as u32)),
        (">>" | "shr", Int(a), Int(b)) => Int(a.wrapping_shr(b as u32)),
        ("&" | "bit_and", Int(a), Int(b)) => Int(a & b),
        ("|" | "bit_or", Int(a), Int(b)) => Int(a | b),
        ("^" | "bit_xor", Int(a), Int(b)) => Int(a ^ b),
        ("+", Float(a), Float(b)) => Float(a + b),
        ("-", Float(a), Float(b)) => Float(a - b),
        ("*", Float(a), Float(b)) => Float(a * b),
        ("/", Float(a), Float(b)) => Float(a / b),
        ("&&" | "&", Bool(a), Bool(b)) => Bool(a & b),
        ("||" | "|", Bool(a), Bool(b)) => Bool(a | b),
        ("^", Bool(a), Bool(b)) => Bool(a ^ b),
        ("==", a, b) => Bool(a == b),
        ("!=", a, b) => Bool(a != b),
        ("<", Int(a), Int(b)) => Bool(a < b),
        ("<=", Int(a), Int(b)) => Bool(a <= b),
        (">", Int(a), Int(b)) => Bool(a > b),
        (">=", Int(a), Int(b)) => Bool(a >= b),
        _ => panic!("{a:?} {symbol} {b:?}"),
    }
}

fn negated(symbol: &str, a: Value) -> Value {
    match (symbol, a) {
        ("-" | "neg", Value::Int(a)) => Value::Int(a.wrapping_neg()),
        ("-", Value::Float(a)) => Value::Float(-a),
        ("!", Value::Bool(a)) => Value::Bool(!a),
        ("!" | "~", Value::Int(a)) => Value::Int(!a),
        _ => panic!("{symbol} {a:?}"),
    }
}

/// The value of a Rust expression over names.
fn of_rust(e: &syn::Expr, names: &HashMap<&str, Value>) -> Value {
    use quote::ToTokens as _;
    match e {
        syn::Expr::Paren(e) => of_rust(&e.expr, names),
        syn::Expr::Binary(e) => {
            let symbol = e.op.to_token_stream().to_string();
            operation(&symbol, of_rust(&e.left, names), of_rust(&e.right, names))
        }
        syn::Expr::Unary(e) => negated(&e.op.to_token_stream().to_string(), of_rust(&e.expr, names)),
        syn::Expr::Path(path) => names[path.path.get_ident().expect("a name").to_string().as_str()],
        e => panic!("{}", e.to_token_stream()),
    }
}

/// A C++ expression, read with the precedence of C++.
struct Cpp<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    names: &'a HashMap<String, Value>,
}

/// The binary operators of C++, the loosest first.
const CPP: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Cpp<'a> {
    fn value(text: &'a str, names: &'a HashMap<String, Value>) -> Value {
        let mut cpp = Cpp { tokens: tokens(text), at: 0, names };
        let value = cpp.binary(0);
        assert_eq!(cpp.at, cpp.tokens.len(), "{text}");
        value
    }

    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.tokens[self.at - 1]
    }

    fn is(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    fn binary(&mut self, level: usize) -> Value {
        if level == CPP.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1);
        while let Some(symbol) = self.tokens.get(self.at).copied().filter(|token| CPP[level].contains(token)) {
            self.at += 1;
            left = operation(symbol, left, self.binary(level + 1));
        }
        left
    }

    fn unary(&mut self) -> Value {
        match self.next() {
            symbol @ ("-" | "!" | "~") => negated(symbol, self.unary()),
            "(" => {
                let value = self.binary(0);
                assert!(self.is(")"));
                value
            }
            name if self.is("(") => {
                let mut args = vec![self.binary(0)];
                while self.is(",") {
                    args.push(self.binary(0));
                }
                assert!(self.is(")"));
                match args[..] {
                    [a] if matches!(name, "bool" | "int" | "float") => a,
                    [a] => negated(name, a),
                    [a, b] => operation(name, a, b),
                    _ => panic!("{name}"),
                }
            }
            name => match self.names.get(name) {
                Some(value) => *value,
                None => Value::Int(name.parse().unwrap_or_else(|_| panic!("`{name}`"))),
            },
        }
    }
}

/// The tokens of C++; `a[1]` and `b.slope` are names.
fn tokens(text: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || "_.[]".contains(c);
        let len = match first {
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ if ["<<", ">>", "<=", ">=", "==", "!=", "&&", "||"].iter().any(|two| rest.starts_with(two)) => 2,
            _ => 1,
        };
        found.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    found
}

/// The operators of a type; `true` for those that give a condition.
const OF_INTS: [&str; 10] = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];
const OF_FLOATS: [&str; 4] = ["+", "-", "*", "/"];
const OF_BOOLS: [&str; 7] = ["&&", "||", "&", "|", "^", "==", "!="];
const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// A type, values of `a`, `b` and `c`, and the operators.
struct Kind {
    ty: &'static str,
    values: [[Value; 3]; 5],
    operators: &'static [&'static str],
}

fn kinds() -> [Kind; 3] {
    let ints = [[1000, 7, 3], [-1000, 7, 2], [5, -9, 4], [i32::MAX, 3, 5], [12, 10, 6]];
    let floats = [[1.5, -2.25, 3.0], [7.0, 0.5, -0.125], [-3.0, 9.0, 2.0], [100.0, 3.0, 7.0], [2.0, 5.0, 11.0]];
    let bools =
        [[true, false, true], [false, true, true], [false, false, true], [true, true, false], [false, true, false]];
    [
        Kind { ty: "i32", values: ints.map(|row| row.map(Value::Int)), operators: &OF_INTS },
        Kind { ty: "f32", values: floats.map(|row| row.map(Value::Float)), operators: &OF_FLOATS },
        Kind { ty: "bool", values: bools.map(|row| row.map(Value::Bool)), operators: &OF_BOOLS },
    ]
}

/// A helper whose body has these tokens, as lines of C++.
fn lines(ty: &str, result: &str, body: &str) -> Vec<String> {
    let item: syn::ItemFn =
        syn::parse_str(&format!("fn f(a: {ty}, b: {ty}, c: {ty}, r: [{ty}; 2], mut s: Line) -> {result} {{ {body} }}"))
            .unwrap_or_else(|error| panic!("{error}: {body}"));
    let text = device_fn_text(&item);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines[1..lines.len() - 1].iter().map(|line| line.trim().trim_end_matches(';').to_owned()).collect()
}

fn device_fn_text(item: &syn::ItemFn) -> String {
    use quote::ToTokens as _;
    let expanded = crate::device_fn::expand(TokenStream::new(), item.to_token_stream());
    let file: syn::File = syn::parse2(expanded).expect("items");
    struct Cuda(Option<String>);
    impl<'ast> syn::visit::Visit<'ast> for Cuda {
        fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
            if let (syn::Member::Named(name), syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })) =
                (&field.member, &field.expr)
                && name == "cuda"
            {
                self.0 = Some(text.value());
            }
        }
    }
    let mut found = Cuda(None);
    syn::visit::Visit::visit_file(&mut found, &file);
    found.0.filter(|text| !text.is_empty()).unwrap_or_else(|| panic!("refused: {}", item.to_token_stream()))
}

/// What stands for values in C++: the arguments, an element and a field.
fn in_cpp(values: [Value; 3], target: &str) -> HashMap<String, Value> {
    let [a, b, c] = values;
    let names = [("a", a), ("b", b), ("c", c), (target, a), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
    names.map(|(name, value)| (name.to_owned(), value)).into()
}

fn in_rust(values: [Value; 3]) -> HashMap<&'static str, Value> {
    let [a, b, c] = values;
    [("a", a), ("b", b), ("c", c)].into()
}

/// Whether Rust would panic or shift out of the type: there the generated text has a meaning of its own.
fn is_defined(e: &syn::Expr, names: &HashMap<&str, Value>) -> bool {
    match e {
        syn::Expr::Paren(e) => is_defined(&e.expr, names),
        syn::Expr::Unary(e) => is_defined(&e.expr, names),
        syn::Expr::Binary(e) => {
            let shift = matches!(e.op, syn::BinOp::Shl(_) | syn::BinOp::Shr(_));
            let fits = !shift || matches!(of_rust(&e.right, names), Value::Int(by) if (0..32).contains(&by));
            fits && is_defined(&e.left, names) && is_defined(&e.right, names)
        }
        _ => true,
    }
}

/// Compares an expression with its text.
fn compare(kind: &Kind, result: &str, rust: &str) {
    let expr: syn::Expr = syn::parse_str(rust).unwrap_or_else(|error| panic!("{error}: {rust}"));
    let written = lines(kind.ty, result, rust);
    let [line] = &written[..] else { panic!("{rust}: {written:?}") };
    let cpp = line.strip_prefix("return ").expect("a result");
    for values in kind.values {
        if is_defined(&expr, &in_rust(values)) {
            let want = of_rust(&expr, &in_rust(values));
            assert_eq!(Cpp::value(cpp, &in_cpp(values, "a")), want, "{rust} as {cpp} of {values:?}");
        }
    }
}

#[test]
fn pairs_of_operators_have_the_value_of_rust() {
    for kind in kinds() {
        for first in kind.operators {
            for second in kind.operators {
                // rustc refuses a chain of comparisons
                let chains = COMPARISONS.contains(first) && COMPARISONS.contains(second);
                for rust in [
                    format!("a {first} (b {second} c)"),
                    format!("(a {first} b) {second} c"),
                    format!("a {first} b {second} c"),
                ] {
                    if !chains || rust.contains('(') {
                        compare(&kind, kind.ty, &rust);
                    }
                }
            }
            let prefix = if kind.ty == "bool" { "!" } else { "-" };
            for rust in [
                format!("{prefix}a {first} b"),
                format!("a {first} {prefix}b"),
                format!("{prefix}(a {first} b)"),
                format!("{prefix}{prefix}a {first} b"),
            ] {
                compare(&kind, kind.ty, &rust);
            }
        }
    }
    let [ints, _, _] = kinds();
    for comparison in COMPARISONS {
        for operator in OF_INTS {
            // `a << b < c` is no Rust: `<` begins arguments there
            compare(&ints, "bool", &format!("(a {operator} b) {comparison} c"));
            compare(&ints, "bool", &format!("a {comparison} (b {operator} c)"));
            compare(&ints, "bool", &format!("!(a {operator} b) {comparison} c"));
        }
        for other in COMPARISONS {
            for logical in OF_BOOLS {
                compare(&ints, "bool", &format!("(a {comparison} b) {logical} (b {other} c)"));
                compare(&ints, "bool", &format!("!(a {comparison} b) {logical} !(b {other} c)"));
                compare(&ints, "bool", &format!("!((a {comparison} b) {logical} (b {other} c))"));
            }
        }
    }
}

#[test]
fn compound_assignments_have_the_value_of_rust() {
    let mut compared = 0;
    for kind in kinds() {
        let compound = kind.operators.iter().filter(|op| !op.contains('=') && !matches!(**op, "&&" | "||"));
        for op in compound {
            for inner in kind.operators {
                for value in [
                    format!("b {inner} c"),
                    format!("(b {inner} c)"),
                    format!("b {inner} c {inner} b"),
                    "b".to_owned(),
                    "-b".to_owned(),
                ] {
                    let chains = COMPARISONS.contains(inner) && value.matches(inner).count() > 1;
                    if chains || value == "-b" && kind.ty == "bool" {
                        continue;
                    }
                    let whole: syn::Expr = syn::parse_str(&format!("a {op} ({value})")).expect("an expression");
                    // a local, an element, a field: the line that assigns, and how the target is written in it
                    let targets = [
                        (format!("let mut x: {ty} = a; x {op}= {value}; x", ty = kind.ty), "x", 1),
                        (format!("let mut t: [{ty}; 2] = r; t[1] {op}= {value}; t[0]", ty = kind.ty), "t[1]", 1),
                        (format!("s.slope {op}= {value}; a"), "s.slope", 0),
                    ];
                    for (body, target, at) in targets {
                        let written = lines(kind.ty, kind.ty, &body);
                        let line = &written[at];
                        let cpp = assigned(line, target);
                        for values in kind.values {
                            if is_defined(&whole, &in_rust(values)) {
                                let want = of_rust(&whole, &in_rust(values));
                                let got = Cpp::value(&cpp, &in_cpp(values, target));
                                assert_eq!(got, want, "{body} as {line} of {values:?}");
                                compared += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(compared > 2000, "{compared}");
}

/// The expression whose value a line assigns to a target.
fn assigned(line: &str, target: &str) -> String {
    let known = |text: &str| text.to_owned();
    if let Some(value) = line.strip_prefix(&format!("{target} = ")) {
        return known(value);
    }
    if let Some((array, index)) = target.strip_suffix(']').and_then(|target| target.split_once('['))
        && let Some(value) =
            line.strip_prefix(&format!("{array}.set({index}, ")).and_then(|rest| rest.strip_suffix(')'))
    {
        return known(value);
    }
    if let Some((whole, field)) = target.split_once('.')
        && let Some(value) =
            line.strip_prefix(&format!("{whole} = {whole}.with_{field}(")).and_then(|rest| rest.strip_suffix(')'))
    {
        return known(value);
    }
    let rest = line.strip_prefix(target).unwrap_or_else(|| panic!("{line}")).trim_start();
    let (op, value) = rest.split_once("= ").unwrap_or_else(|| panic!("{line}"));
    // C++ evaluates the whole right side first
    format!("{target} {op} ({value})")
}
