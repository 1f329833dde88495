//! Random masks as users write them: distances, blocks, cells of a grid, bits, tables, through lets, loops and helpers.

use std::fmt::Write as _;

use attn_core::{expr::Variant, lang::Dims};
use rand::{Rng, rngs::SmallRng};

/// What masks read: positions up to this.
pub(crate) const POSITIONS: i32 = 1024;
/// Elements of the tables: one for 16 positions.
const TABLE: i32 = POSITIONS / 16;

/// A mask: the text of a file with the variant `user_mask_K` of the struct `UserMaskK`.
#[derive(Debug)]
pub(crate) struct UserMask {
    pub(crate) text: String,
    expr: String,
}

/// The helpers of every file.
const HELPERS: &str = "
#[device_type]
#[derive(Clone, Copy)]
struct Cell { line: i32, column: i32 }

#[device_fn]
fn at2d(p: i32) -> (i32, i32) { (p / 32, p % 32) }

#[device_fn]
fn cell(p: i32) -> Cell { Cell { line: p / 64, column: p % 64 } }

#[device_fn]
fn near(a: Cell, b: Cell, by: i32) -> bool { (a.line - b.line).abs() <= by && (a.column - b.column).abs() <= by * 8 }

#[device_fn]
fn distance(at: LogitIndex) -> i32 { at.qo_pos - at.kv_pos }

#[device_fn]
fn within(at: LogitIndex, window: i32) -> bool { distance(at) >= 0 && distance(at) < window }

#[device_fn]
fn level(p: i32) -> i32 { if p < 256 { 0 } else if p < 512 { 1 } else { 2 } }
";

struct Gen<'a> {
    rng: &'a mut SmallRng,
    lets: String,
    /// Names taken by lets.
    names: usize,
}

impl UserMask {
    /// The mask with the number `k`.
    pub(crate) fn random(rng: &mut SmallRng, k: usize) -> UserMask {
        let mut g = Gen { rng, lets: String::new(), names: 0 };
        let value = g.mask(2);
        let lets = g.lets;
        let text = format!(
            "use attn::prelude::*;\n{HELPERS}\n/// Random.\n#[derive(Clone, VariantParams)]\nstruct UserMask{k} {{ n: \
             i32, #[shape({TABLE})] #[monotone] spans: Tensor1<i32>, #[shape({TABLE})] free: Tensor1<i32> \
             }}\n\n#[attention_variant(name = \"user_mask_{k}\")]\nimpl AttentionVariant for UserMask{k} {{\n    fn \
             logits_mask(&self, at: LogitIndex) -> bool {{\n        let (q, k) = (space::plain(at.qo_pos), \
             space::plain(at.kv_pos));\n{lets}        {value}\n    }}\n}}\n"
        );
        let mut documents = 0;
        let spans: Vec<i32> = (0..TABLE)
            .map(|_| {
                documents += i32::from(rng.random_range(0..6) == 0);
                documents
            })
            .collect();
        let free: Vec<i32> = (0..TABLE / 8).flat_map(|_| [rng.random_range(0..4); 8]).collect();
        let expr = format!("user_mask_{k}(n={}, spans={spans:?}, free={free:?})", rng.random_range(1..5));
        UserMask { text, expr }
    }

    /// The variant, whose text was registered.
    pub(crate) fn variant(&self) -> Variant {
        Variant::parse(&self.expr).expect(&self.expr).bind(&Dims::default()).expect(&self.expr)
    }
}

impl Gen<'_> {
    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.random_range(0..items.len())]
    }

    /// A width of blocks and windows.
    fn width(&mut self) -> i32 {
        self.pick(&[16, 32, 48, 64, 100, 128, 200, 256, 300, 512])
    }

    /// A mask of conditions.
    fn mask(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.condition();
        }
        let d = depth - 1;
        match self.rng.random_range(0..10) {
            0..=2 => format!("q >= k && ({})", self.mask(d)),
            3 | 4 => format!("({}) && ({})", self.mask(d), self.mask(d)),
            5 | 6 => format!("({}) || ({})", self.mask(d), self.mask(d)),
            7 => format!("!({})", self.mask(d)),
            8 => format!("if {} {{ {} }} else {{ {} }}", self.condition_of("q"), self.mask(d), self.mask(d)),
            _ => self.condition(),
        }
    }

    /// A number of a position, which is not a distance; with its bound.
    fn number(&mut self, of: &str) -> (String, i32) {
        let w = self.width();
        match self.rng.random_range(0..10) {
            0 => (of.to_owned(), POSITIONS),
            1 => (format!("{of} / {w}"), POSITIONS / w + 1),
            2 => {
                let s = self.rng.random_range(4..9);
                (format!("({of} >> {s})"), POSITIONS >> s)
            }
            3 => (format!("({of} & !{})", self.pick(&[31, 63, 127, 255])), POSITIONS),
            4 => (format!("self.spans[{of} / 16]"), 12),
            5 => (format!("at2d({of}).0"), POSITIONS / 32),
            6 => (format!("cell({of}).line"), POSITIONS / 64),
            7 => (format!("level({of})"), 3),
            8 => (format!("(({of} as u64 * 3 / {w}) as i32)"), POSITIONS * 3 / w + 1),
            _ => (format!("({of} + {w}) / {w}"), POSITIONS / w + 2),
        }
    }

    /// A condition on one position.
    fn condition_of(&mut self, of: &str) -> String {
        let w = self.width();
        match self.rng.random_range(0..7) {
            0 => format!("{of} % {} < {}", w * 2, w),
            1 => format!("({of} - {}).rem_euclid({}) / {w} == {}", w / 3, w * 4, self.rng.random_range(0..4)),
            2 => format!("({of} >> {}) & 1 == 0", self.rng.random_range(5..9)),
            3 => format!("self.free[{of} / 16] {} {}", self.pick(&["==", "!=", "<"]), self.rng.random_range(0..4)),
            4 => format!("{of} & {} != 0", self.pick(&[256, 512, 768, 192])),
            _ => {
                let (number, bound) = self.number(of);
                let to = self.rng.random_range(0..bound);
                format!("{number} {} {to}", self.pick(&["<", "<=", ">", ">=", "==", "!="]))
            }
        }
    }

    /// A name for a value of `lets`.
    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    fn condition(&mut self) -> String {
        let (w, by) = (self.width(), self.rng.random_range(0..4));
        match self.rng.random_range(0..16) {
            0 => format!("(q - k).abs() <= {w}"),
            1 => format!("within(at, {w})"),
            2 => format!("near(cell(q), cell(k), {})", by + 1),
            3 | 4 => {
                let (number, _) = self.number("q");
                let of_key = number.replace('q', "k");
                format!("{number} {} {of_key}", self.pick(&["==", ">=", ">", "<="]))
            }
            5 => {
                let (number, _) = self.number("q");
                format!("({number} - {}).abs() <= {by}", number.replace('q', "k"))
            }
            6 => {
                let name = self.name("distance");
                let _ = writeln!(self.lets, "        let {name} = q - k;");
                format!("{name} >= {} && {name} < {w}", -16 * by)
            }
            7 => {
                let (a, b) = (self.name("line"), self.name("column"));
                let _ = writeln!(self.lets, "        let ({a}, {b}) = at2d(k);");
                format!("{a} <= q / 32 && {b} < {}", self.pick(&[8, 16, 32]))
            }
            8 | 9 => {
                let name = self.name("any");
                let steps = self.pick(&["2i32", "3i32", "self.n"]);
                let inside = self.pick(&[
                    "(q - k - i * STEP).abs() <= 40",
                    "q / STEP - k / STEP == i * 2",
                    "k >= i * STEP && k < i * STEP + 64",
                    "self.spans[q / 16] == self.spans[k / 16] + i",
                ]);
                let inside = inside.replace("STEP", &w.to_string());
                let _ = writeln!(self.lets, "        let mut {name} = false;");
                let _ = writeln!(self.lets, "        for i in 0..{steps} {{ {name} |= {inside}; }}");
                name
            }
            10 => {
                let name = self.name("all");
                let _ = writeln!(self.lets, "        let mut {name} = true;");
                let _ =
                    writeln!(self.lets, "        for i in 0..3 {{ if k / {w} == i * 2 {{ {name} = q / {w} >= i; }} }}");
                name
            }
            11 => format!("(q ^ k) < {}", self.pick(&[64, 128, 256])),
            12 => "self.spans[q / 16] * 64 >= k".to_owned(),
            _ => {
                let of = self.pick(&["q", "k", "k"]);
                self.condition_of(of)
            }
        }
    }
}
