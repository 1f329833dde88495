//! Random hooks as Rust text, well typed by construction.

use rand::{Rng, rngs::SmallRng};

/// The types of values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Ty {
    I32,
    U32,
    U8,
    U64,
    I64,
    F32,
    Bool,
}
use Ty::{Bool, F32, I32, I64, U8, U32, U64};

const ALL: [Ty; 7] = [I32, U32, U8, U64, I64, F32, Bool];
const INTS: [Ty; 5] = [I32, U32, U8, U64, I64];

impl Ty {
    /// The name of the type in Rust.
    pub(crate) fn name(self) -> &'static str {
        ["i32", "u32", "u8", "u64", "i64", "f32", "bool"][self as usize]
    }
}

/// A struct with a field of each type; two are named like words of C++.
pub(crate) const STRUCT: &str =
    "struct S { int: i32, word: u32, byte: u8, long: u64, far: i64, real: f32, truth: bool }";

/// The fields of the struct.
pub(crate) const FIELDS: [(&str, Ty); 7] =
    [("int", I32), ("word", U32), ("byte", U8), ("long", U64), ("far", I64), ("real", F32), ("truth", Bool)];

struct Gen<'a> {
    rng: &'a mut SmallRng,
    vars: Vec<(String, Ty, bool)>,
    /// Arrays of four.
    arrays: Vec<(String, Ty)>,
    structs: Vec<String>,
    /// The type of the hook's result.
    result: Ty,
}

/// An impl with a mask.
pub(crate) fn mask(rng: &mut SmallRng) -> String {
    let mut g = Gen { rng, vars: Vec::new(), arrays: Vec::new(), structs: Vec::new(), result: Bool };
    let mut body = String::new();
    for _ in 0..g.rng.random_range(1..5) {
        body += &g.stmt(2, false);
    }
    let near =
        g.pick(&["at.kv_pos <= at.qo_pos", "at.qo_pos - at.kv_pos < 40", "true", "at.kv_pos / 16 == at.qo_pos / 16"]);
    let value = format!("{near} && {}", g.expr(Bool, 4));
    format!("impl AttentionVariant for X {{ fn logits_mask(&self, at: LogitIndex) -> bool {{\n{body}    {value}\n}} }}")
}

/// An impl with one hook, whose result holds every bit of every variable.
pub(crate) fn hook(rng: &mut SmallRng) -> String {
    let mut g =
        Gen { rng, vars: vec![("logit".into(), F32, false)], arrays: Vec::new(), structs: Vec::new(), result: F32 };
    let mut body = String::new();
    for _ in 0..g.rng.random_range(4..9) {
        body += &g.stmt(2, false);
    }
    let elements = g.arrays.iter().flat_map(|(name, ty)| (0..4).map(move |i| bits(&format!("{name}[{i}]"), *ty)));
    let fields = g.structs.iter().flat_map(|name| FIELDS.map(|(field, ty)| bits(&format!("{name}.{field}"), ty)));
    let vars = g.vars.iter().map(|(name, ty, _)| bits(name, *ty));
    let mixed: Vec<String> = vars.chain(elements).chain(fields).collect();
    let head = "fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32";
    format!("impl AttentionVariant for X {{ {head} {{\n{body}    f32::from_bits({})\n}} }}", mixed.join(" ^ "))
}

/// A source file with a variant whose hooks have about `lines` lines: a transform, and sometimes a mask.
pub(crate) fn long_file(rng: &mut SmallRng, lines: usize) -> String {
    let mut hooks = String::new();
    if rng.random_range(0..3) == 0 {
        let (body, value) = long_body(rng, lines, Bool);
        hooks += &format!("fn logits_mask(&self, at: LogitIndex) -> bool {{\n{body}    {value}\n}}\n");
    }
    let (body, value) = long_body(rng, lines, F32);
    hooks += &format!("fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {{\n{body}    {value}\n}}\n");
    format!(
        "use attn::prelude::*;\n#[device_type]\n#[derive(Clone, Copy)]\n{STRUCT}\n\n/// Random.\n\
         #[derive(Clone, Debug, VariantParams)]\nstruct X {{ #[default(3)] a: i32, #[default(5)] n: i32, \
         #[default(7)] u: u32, #[default(true)] flag: bool, #[default(0.5)] x: f32, \
         #[shape(batch)] t: Tensor1<i32> }}\n\n\
         #[attention_variant]\nimpl AttentionVariant for X {{\n{hooks}}}\n"
    )
}

/// Statements, and a value that reads every variable.
fn long_body(rng: &mut SmallRng, lines: usize, result: Ty) -> (String, String) {
    let vars = if result == F32 { vec![("logit".into(), F32, false)] } else { Vec::new() };
    let mut g = Gen { rng, vars, arrays: Vec::new(), structs: Vec::new(), result };
    let mut body = String::new();
    while body.lines().count() < lines {
        body += &g.stmt(2, false);
    }
    let vars: Vec<String> = g.vars.iter().map(|(name, ty, _)| bits(name, *ty)).collect();
    let all = vars.join(" ^ ");
    (body, if result == F32 { format!("f32::from_bits({all})") } else { format!("({all}) % 3 != 0") })
}

/// The bits of a value as a u32. The sign of a zero and the bits of a NaN are unspecified and masked.
fn bits(x: &str, ty: Ty) -> String {
    match ty {
        F32 => format!("(if {x}.is_nan() {{ 1 }} else {{ ({x} + 0.0).to_bits() }})"),
        U64 | I64 => format!("(({x} >> 32) as u32 ^ {x} as u32)"),
        _ => format!("({x} as u32)"),
    }
}

impl Gen<'_> {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.random_range(0..items.len())]
    }

    fn any(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn scoped(&mut self, f: impl FnOnce(&mut Self) -> String) -> String {
        let before = (self.vars.clone(), self.arrays.clone(), self.structs.clone());
        let text = f(self);
        (self.vars, self.arrays, self.structs) = before;
        text
    }

    fn stmt(&mut self, depth: u32, in_loop: bool) -> String {
        let mutable: Vec<(String, Ty, bool)> = self.vars.iter().filter(|v| v.2).cloned().collect();
        let inner = |g: &mut Self| g.scoped(|g| (0..2).map(|_| g.stmt(depth - 1, in_loop)).collect());
        match self.rng.random_range(0..15) {
            13 => {
                let name = self.pick(&["point", "line"]);
                let base = self.structs.first().cloned();
                let mut fields = FIELDS.to_vec();
                fields.rotate_left(self.rng.random_range(0..7));
                fields.truncate(if base.is_some() { 2 } else { 7 });
                let mut values: Vec<String> =
                    fields.iter().map(|(field, ty)| format!("{field}: {}", self.expr(*ty, 3))).collect();
                values.extend(base.map(|base| format!("..{base}")));
                self.structs.retain(|s| s != name);
                self.structs.push(name.to_owned());
                format!("let mut {name} = S {{ {} }};\n", values.join(", "))
            }
            14 if !self.structs.is_empty() => {
                let name = self.structs[self.rng.random_range(0..self.structs.len())].clone();
                let (field, ty) = self.pick(&FIELDS);
                let op = self.assignment(ty);
                format!("{name}.{field} {op} {};\n", self.expr(ty, 3))
            }
            10 => {
                let (ty, name) = (self.pick(&ALL), self.pick(&["list", "array", "repeat"]));
                let value = match self.any(2) {
                    true => format!("[{}; 4]", self.expr(ty, 2)),
                    false => format!("[{}]", [0; 4].map(|_| self.expr(ty, 2)).join(", ")),
                };
                self.vars.retain(|v| v.0 != name);
                self.arrays.retain(|a| a.0 != name);
                self.arrays.push((name.to_owned(), ty));
                format!("let mut {name}: [{}; 4] = {value};\n", ty.name())
            }
            11 if !self.arrays.is_empty() => {
                let (name, ty) = self.arrays[self.rng.random_range(0..self.arrays.len())].clone();
                let op = self.assignment(ty);
                format!("{name}[{}] {op} {};\n", self.index(), self.expr(ty, 3))
            }
            12 if depth > 0 && !self.arrays.is_empty() => {
                let (name, ty) = self.arrays[self.rng.random_range(0..self.arrays.len())].clone();
                let (index, op) = (self.pick(&["k", "3 - k", "(k + 2) % 4", "k ^ 1"]), self.assignment(ty));
                let inner = inner(self);
                format!("for k in 0..4 {{\n{name}[{index}] {op} {};\n{inner}}}\n", self.expr(ty, 2))
            }
            0..=2 if !mutable.is_empty() => {
                let (name, ty, _) = mutable[self.rng.random_range(0..mutable.len())].clone();
                let op = self.assignment(ty);
                format!("{name} {op} {};\n", self.expr(ty, 3))
            }
            3 if depth > 0 => {
                let (cond, then, other) = (self.expr(Bool, 2), inner(self), inner(self));
                if self.any(2) {
                    format!("if {cond} {{\n{then}}}\n")
                } else {
                    format!("if {cond} {{\n{then}}} else {{\n{other}}}\n")
                }
            }
            4 if depth > 0 && self.result == Bool && self.any(2) => {
                let to = self.pick(&["self.n", "(self.a & 15)", "self.n + 2"]);
                let body = self.scoped(|g| {
                    g.declare("i", I32, false);
                    (0..2).map(|_| g.stmt(depth - 1, true)).collect()
                });
                format!("for i in 0..{to} {{\n{body}}}\n")
            }
            4 if depth > 0 => {
                let ty = self.pick(&[I32, U32, U8]);
                let range = match (ty, self.rng.random_range(0..4)) {
                    (I32, 0) => "2147483645..=i32::MAX".to_owned(),
                    (U8, 0) => "253..=255u8".to_owned(),
                    (U32, 0) => "(self.u | 4294967293)..=u32::MAX".to_owned(),
                    (_, 1) => format!("0..=({} & 3{})", self.expr(ty, 1), ty.name()),
                    _ => format!("({} & 1)..({} & 7{})", self.expr(ty, 1), self.expr(ty, 1), ty.name()),
                };
                let body = self.scoped(|g| {
                    g.declare("i", ty, false);
                    (0..2).map(|_| g.stmt(depth - 1, true)).collect()
                });
                format!("for i in {range} {{\n{body}}}\n")
            }
            5 if in_loop => {
                format!("if {} {{ {}; }}\n", self.expr(Bool, 2), ["break", "continue"][usize::from(self.any(2))])
            }
            6 if self.any(3) => {
                format!("if {} {{ return {}; }}\n", self.expr(Bool, 2), self.expr(self.result, 2))
            }
            7 => {
                let (a, b) = (self.pick(&ALL), self.pick(&ALL));
                let text =
                    format!("let (p, q): ({}, {}) = ({}, {});\n", a.name(), b.name(), self.expr(a, 2), self.expr(b, 2));
                self.declare("p", a, false);
                self.declare("q", b, false);
                text
            }
            _ => {
                let (ty, name) = (self.pick(&ALL), self.pick(&["a", "b", "c", "min", "x", "int"]));
                let mutable = self.any(2);
                let value = self.expr(ty, 4);
                self.declare(name, ty, mutable);
                let seen = matches!(ty, I32 | F32 | Bool);
                let given = if seen && self.any(2) { String::new() } else { format!(": {}", ty.name()) };
                format!("let {}{name}{given} = {value};\n", if mutable { "mut " } else { "" })
            }
        }
    }

    fn assignment(&mut self, ty: Ty) -> &'static str {
        match ty {
            Bool => self.pick(&["=", "&=", "|=", "^="]),
            F32 => self.pick(&["=", "+=", "-=", "*="]),
            _ => self.pick(&["=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="]),
        }
    }

    /// An index that stays within an array of four.
    fn index(&mut self) -> String {
        match self.rng.random_range(0..6) {
            0 => self.pick(&["0", "3"]).to_owned(),
            1 => format!("({} as i32 & 3) as usize", self.expr(I32, 1)),
            2 => format!("({} as i32).rem_euclid(4) as usize", self.expr(I32, 1)),
            3 => format!("({} as u32 % 4) as usize", self.expr(U32, 1)),
            4 => format!("({} as u8 >> 6) as usize", self.expr(U8, 1)),
            _ => format!("({} as i32).clamp(0, 3) as usize", self.expr(I32, 1)),
        }
    }

    /// Declares a variable, which shadows one of the same name.
    fn declare(&mut self, name: &str, ty: Ty, mutable: bool) {
        self.vars.retain(|v| v.0 != name);
        self.arrays.retain(|a| a.0 != name);
        self.vars.push((name.to_owned(), ty, mutable));
    }

    fn leaf(&mut self, ty: Ty) -> String {
        let vars: Vec<String> = self.vars.iter().filter(|v| v.1 == ty).map(|v| v.0.clone()).collect();
        if !vars.is_empty() && self.any(2) {
            return vars[self.rng.random_range(0..vars.len())].clone();
        }
        let arrays: Vec<String> = self.arrays.iter().filter(|a| a.1 == ty).map(|a| a.0.clone()).collect();
        if !arrays.is_empty() && self.any(3) {
            let name = &arrays[self.rng.random_range(0..arrays.len())];
            return format!("{name}[{}]", self.rng.random_range(0..4));
        }
        if !self.structs.is_empty() && self.any(3) {
            let name = &self.structs[self.rng.random_range(0..self.structs.len())];
            let field = FIELDS.iter().find(|(_, of)| *of == ty).map_or("", |(field, _)| field);
            return format!("{name}.{field}");
        }
        let known: &[&str] = match ty {
            I32 => &[
                "self.a",
                "self.n",
                "space::plain(at.kv_pos)",
                "space::plain(at.qo_pos)",
                "space::plain(at.row.qo_head)",
                "self.t[space::plain(at.qo_pos)]",
                "i32::MIN",
                "-1",
                "-17i32",
                "1",
                "31",
                "65536",
                "2147483647",
            ],
            U32 => &[
                "self.u",
                "(space::plain(at.kv_pos) as u32)",
                "u32::MAX",
                "0u32",
                "1",
                "5",
                "31",
                "2147483648u32",
                "4294967295u32",
            ],
            U8 => &["(self.a as u8)", "b'x'", "u8::MAX", "3u8", "1", "200u8"],
            U64 => &["(self.u as u64)", "u64::MAX", "1", "0x9e37_79b9_7f4a_7c15u64", "3u64"],
            I64 => &[
                "(self.a as i64)",
                "i64::from(space::plain(at.kv_pos))",
                "i64::MIN",
                "i64::MAX",
                "1",
                "-1",
                "-3i64",
                "-2147483648i64",
                "4294967296i64",
                "0x1e37_79b9_7f4a_7c15i64",
            ],
            F32 if self.result == Bool => &["self.x", "0.0", "1.5"],
            F32 => &["logit", "self.x", "0.0", "1.5", "-2.25", "1e30", "f32::INFINITY", "3_f32", "16777217.0"],
            Bool => &["self.flag", "true", "false"],
        };
        self.pick(known).to_owned()
    }

    fn expr(&mut self, ty: Ty, depth: u32) -> String {
        if depth == 0 || self.any(6) {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.rng.random_range(0..12) {
            0 => format!("(if {} {{ {} }} else {{ {} }})", self.expr(Bool, d), self.expr(ty, d), self.expr(ty, d)),
            1 => {
                let (a, b) = self.pick(&[("-3", "4"), ("0", "9"), ("i32::MIN", "-1")]);
                let [guard, other] = [0; 2].map(|_| self.expr(Bool, d));
                let values = [0; 4].map(|_| self.expr(ty, d));
                let [w, x, y, z] = values;
                format!(
                    "(match {} {{ {a}..={b} => {w}, 31 | 65536 if {guard} => {x}, _ if {other} => {y}, _ => {z} }})",
                    self.expr(I32, d)
                )
            }
            2 => {
                let inner = self.pick(&ALL);
                let value = self.expr(inner, d);
                self.scoped(|g| {
                    g.declare("t", inner, false);
                    format!("{{ let t: {} = {value}; {} }}", inner.name(), g.expr(ty, d))
                })
            }
            _ => match ty {
                Bool => self.bool(d),
                F32 => self.float(d),
                _ => self.int(ty, d),
            },
        }
    }

    fn bool(&mut self, d: u32) -> String {
        let ty = self.pick(&[I32, U32, U8, U64, I64, F32]);
        match self.rng.random_range(0..4) {
            0 => format!("!{}", self.leaf(Bool)),
            1 => format!(
                "({} {} {})",
                self.expr(Bool, d),
                self.pick(&["&&", "||", "&", "|", "^", "==", "!="]),
                self.expr(Bool, d)
            ),
            _ => format!(
                "({} {} {})",
                self.expr(ty, d),
                self.pick(&["<", "<=", ">", ">=", "==", "!="]),
                self.expr(ty, d)
            ),
        }
    }

    fn float(&mut self, d: u32) -> String {
        let (a, b) = (self.expr(F32, d), self.expr(F32, d));
        match self.rng.random_range(0..8) {
            0 => format!("(({a}).{}({b}) + 0.0)", self.pick(&["min", "max"])),
            1 => {
                format!("({a}).{}()", self.pick(&["abs", "floor", "ceil", "trunc", "round_ties_even", "sqrt", "round"]))
            }
            2 => format!("({a}).mul_add({b}, {})", self.leaf(F32)),
            3 => {
                let from = self.pick(&INTS);
                format!("({} as f32)", self.expr(from, d))
            }
            4 => format!("(-{a})"),
            _ => format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", "%"])),
        }
    }

    fn int(&mut self, ty: Ty, d: u32) -> String {
        let (a, b) = (self.expr(ty, d), self.expr(ty, d));
        let name = ty.name();
        let receiver = format!("({a} as {name})");
        match self.rng.random_range(0..20) {
            14 if ty == I32 => {
                let by = self.pick(&["self.a", "self.n"]);
                self.pick(&["(X / BY)", "(X % BY)", "X.rem_euclid(BY)", "X.div_euclid(BY)"])
                    .replace('X', &receiver)
                    .replace("BY", by)
            }
            14 if ty == U32 => {
                self.pick(&["(X / self.u)", "(X % self.u)", "X.div_euclid(self.u)"]).replace('X', &receiver)
            }
            15 => {
                let arrays: Vec<String> = self.arrays.iter().filter(|a| a.1 == ty).map(|a| a.0.clone()).collect();
                match arrays.first() {
                    Some(name) => format!("{name}[{}]", self.index()),
                    None => a,
                }
            }
            16 if !matches!(ty, I32 | I64) => match self.rng.random_range(0..5) {
                4 => format!("{receiver}.isqrt()"),
                0 => format!("{receiver}.next_power_of_two()"),
                1 => format!("{receiver}.div_ceil({b})"),
                2 => format!("{receiver}.next_multiple_of({b})"),
                _ => format!("({receiver}.is_power_of_two() as {name})"),
            },
            16 => self
                .pick(&["X.wrapping_abs()", "(X.is_positive() as T)", "(X.is_negative() as T)"])
                .replace('T', name)
                .replace('X', &receiver),
            17 => format!("{receiver}.reverse_bits()"),
            18 => format!(
                "{receiver}.{}({})",
                self.pick(&["wrapping_shl", "wrapping_shr", "wrapping_pow"]),
                self.expr(U32, d)
            ),
            19 => format!(
                "{receiver}.{}({b})",
                self.pick(&["saturating_mul", "wrapping_div", "wrapping_rem", "wrapping_sub", "saturating_mul"])
            ),
            0 => {
                let by = self.pick(&INTS);
                format!("({a} {} {})", self.pick(&["<<", ">>"]), self.expr(by, d))
            }
            1 if matches!(ty, I32 | I64) => self.pick(&["(-X)", "X.abs()", "X.signum()"]).replace('X', &receiver),
            2 => format!("(!{a})"),
            3 | 4 => {
                let from = self.pick(&ALL);
                format!("({} as {name})", self.expr(from, d))
            }
            5 => format!(
                "{receiver}.{}({b})",
                self.pick(&["min", "max", "wrapping_add", "wrapping_mul", "saturating_add", "saturating_sub"])
            ),
            6 => format!("{receiver}.{}({})", self.pick(&["rotate_left", "rotate_right", "pow"]), self.expr(U32, d)),
            7 if ty == U32 => {
                let on = self.pick(&INTS);
                format!(
                    "({} as {}).{}()",
                    self.expr(on, d),
                    on.name(),
                    self.pick(&[
                        "count_ones",
                        "leading_zeros",
                        "trailing_zeros",
                        "count_zeros",
                        "leading_ones",
                        "trailing_ones"
                    ])
                )
            }
            8 if ty == U64 => format!("({} as i64).abs_diff({})", self.expr(I64, d), self.expr(I64, d)),
            8 if ty == U32 => format!("({} as i32).abs_diff({})", self.expr(I32, d), self.expr(I32, d)),
            9 => format!("{receiver}.{}({b})", self.pick(&["rem_euclid", "div_euclid"])),
            10 if ty == I32 => format!("self.t[{}]", self.expr(I32, d)),
            _ => format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", "%", "&", "|", "^"])),
        }
    }
}
