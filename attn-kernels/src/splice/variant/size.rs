//! How long hooks are: about as many instructions as a compiler makes of one copy of their text.
//!
//! Templates unroll their loops over logits, so that registers have constant indices. A thread of prefill on WGMMA has
//! 64 logits in each of two places, and a compiler needs minutes for 128 copies of a long hook. So the text of a long
//! hook is another one ([`Length`]).

use attn_core::lang::{DeviceFn, Hook, Normalizer, VariantDesc};

use super::hooks::{self, MemberFunction};
use super::links::Links;
use super::shape::Shape;

/// The most instructions of a hook of which prefill has 128 copies.
const SHORT: u32 = 80;
/// The most instructions of a hook of which kernels have eight copies.
const LONG: u32 = 700;
/// The most instructions of a hook on rows that is inlined.
const ROW: u32 = 100;
/// The most instructions of the body of a loop that the compiler may unroll in a long hook.
const LOOP_BODY: u32 = 24;
/// What a loop costs beside its body, if it stays one: registers are assigned around each copy.
const LOOP: u32 = 60;
/// How often a compiler unrolls a loop whose number of iterations it does not know, and at most if it knows.
const UNROLLED: [u32; 2] = [4, 16];
/// More instructions are not counted.
const MOST: u32 = 1 << 20;

/// What is long in a variant.
pub(super) struct LongHooks {
    /// Loops over logits are rolled, so that there are eight copies of the hooks on logits.
    pub(super) rolled: bool,
    /// Functions that are called: there is one copy.
    called: Vec<MemberFunction>,
}

impl LongHooks {
    pub(super) fn of(shape: &Shape<'_>) -> Self {
        let sizes: Vec<(Hook, Size)> = shape.parts().into_iter().flat_map(part_sizes).collect();
        // positions are mapped before each hook
        let of = |hooks: &[Hook]| {
            let is_in = |of: &Hook| hooks.contains(of) || matches!(of, Hook::RemapQoPos | Hook::RemapKvPos);
            sizes.iter().filter(|(hook, _)| is_in(hook)).fold(Size::default(), |sum, (_, size)| sum.and(*size))
        };
        let weight = of(&[Hook::Weight, Hook::Denominator]);
        // a plain weight follows the transform; another one runs in chunks, of which there are many
        let plain = shape.normalizing().is_some_and(|part| matches!(part.normalizer, Normalizer::Plain { .. }));
        let (logits, most) = if plain { (&LOGITS[..], LONG) } else { (&LOGITS[..1], SHORT) };
        let logits = of(logits);
        let is_called = |function: &MemberFunction| match *function {
            MemberFunction::TileClass => of(&[Hook::LogitsMask]).inlined > SHORT,
            MemberFunction::Hook(hook) => match hook {
                Hook::LogitsTransform => logits.is_longer(LONG),
                Hook::Weight | Hook::Denominator => (if plain { logits } else { weight }).is_longer(most),
                Hook::LogitsMask | Hook::SinkLogit => of(&[hook]).is_longer(LONG),
                Hook::QueryTransform | Hook::KeyTransform | Hook::ValueTransform | Hook::OutputTransform => {
                    of(&[hook]).is_longer(ROW)
                }
                _ => false,
            },
            _ => false,
        };
        LongHooks {
            rolled: logits.inlined.max(weight.inlined) > SHORT,
            called: hooks::ORDER.iter().copied().filter(is_called).collect(),
        }
    }

    /// Whether the function is called, and not inlined.
    pub(super) fn calls(&self, function: MemberFunction) -> bool {
        self.called.contains(&function)
    }
}

/// The hooks that make weights of logits.
const LOGITS: [Hook; 3] = [Hook::LogitsTransform, Hook::Weight, Hook::Denominator];

/// Instructions of a hook.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Of the text as it is.
    inlined: u32,
    /// With rolled loops.
    rolled: u32,
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size { inlined: self.inlined.saturating_add(other.inlined), rolled: self.rolled.saturating_add(other.rolled) }
    }

    /// Whether a hook is longer than `most`. A short one keeps its text.
    fn is_longer(self, most: u32) -> bool {
        self.inlined > SHORT && self.rolled > most
    }
}

/// The sizes of a part's hooks.
fn part_sizes(part: &VariantDesc) -> Vec<(Hook, Size)> {
    let [as_is, rolled] = [false, true].map(|rolled| helper_sizes(part, rolled));
    let size =
        |text: &str| Size { inlined: size(text, &as_is), rolled: size(&with_rolled_loops(text, &rolled), &rolled) };
    part.hooks.iter().map(|text| (text.hook, size(text.cuda))).collect()
}

/// The names and sizes of a part's helpers, each after those that it calls.
fn helper_sizes(part: &VariantDesc, rolled: bool) -> Vec<(&'static str, u32)> {
    let mut sizes = Vec::new();
    for helper in Links::of(&part.into()).map(|links| links.helpers).unwrap_or_default() {
        let size =
            if rolled { size(&with_rolled_loops(helper.cuda, &sizes), &sizes) } else { size(helper.cuda, &sizes) };
        sizes.push((helper.name, size));
    }
    sizes
}

/// The text of each helper of a part, then that of each hook: with rolled loops where a hook is long.
pub(super) fn texts(part: &VariantDesc, helpers: &[&DeviceFn]) -> (Vec<String>, Vec<String>) {
    let [as_is, rolled] = [false, true].map(|rolled| helper_sizes(part, rolled));
    let long: Vec<bool> = part.hooks.iter().map(|text| size(text.cuda, &as_is) > SHORT).collect();
    let any = long.contains(&true);
    let text = |cuda: &str, long: bool| if long { with_rolled_loops(cuda, &rolled) } else { cuda.to_owned() };
    let of_helpers = helpers.iter().map(|helper| text(helper.cuda, any)).collect();
    (of_helpers, part.hooks.iter().zip(long).map(|(hook, long)| text(hook.cuda, long)).collect())
}

/// Functions that are longer than two instructions. Names end where the parenthesis begins.
const FUNCTIONS: [(u32, &[&str]); 5] = [
    (4, &["exp", "exp2", "ln", "log2", "log10", "sqrt", "recip", "tanh", "sigmoid", "round", "rem_by", "div_by"]),
    (8, &["div", "rem", "wrapping_div", "wrapping_rem", "div_euclid", "rem_euclid", "div_ceil", "next_multiple_of"]),
    (12, &["exp_m1", "ln_1p", "powi", "pow", "wrapping_pow", "saturating_mul", "isqrt", "log_add_exp"]),
    (30, &["sin", "cos", "sin_cos", "powf", "erf"]),
    (60, &["tan", "sinh", "cosh", "asin", "acos", "atan", "atan2", "hypot", "cbrt", "hadamard"]),
];

/// About as many instructions as a compiler makes of one function of generated text. `helpers`: sizes by name.
fn size(text: &str, helpers: &[(&str, u32)]) -> u32 {
    // integers of 64 bits take several instructions
    let width = if text.contains("u64") || text.contains("i64") { 3 } else { 1 };
    let mut blocks = vec![Block { size: 0, times: 1 }];
    let (mut pragma, mut head) = (None, None);
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') || line.starts_with("//") {
            pragma = line.strip_prefix("#pragma unroll ").and_then(|n| n.parse().ok()).or(pragma);
            continue;
        }
        if line.starts_with('}') && blocks.len() > 1 {
            close(&mut blocks);
        }
        let here = line_size(line, width, helpers);
        if let Some(block) = blocks.last_mut() {
            block.size = block.size.saturating_add(here).min(MOST);
        }
        if line.starts_with("for (") {
            head = Some(pragma.take().unwrap_or_else(|| unrolled(line)));
            if let Some(block) = blocks.last_mut().filter(|_| unrolled(line) == UNROLLED[0]) {
                block.size += LOOP;
            }
        }
        if line.ends_with('{') {
            blocks.push(Block { size: 0, times: head.take().unwrap_or(1) });
        }
    }
    while blocks.len() > 1 {
        close(&mut blocks);
    }
    blocks[0].size
}

/// Lines in braces, and how often a compiler repeats them.
struct Block {
    size: u32,
    times: u32,
}

fn close(blocks: &mut Vec<Block>) {
    if let (Some(inner), Some(outer)) = (blocks.pop(), blocks.last_mut()) {
        outer.size = outer.size.saturating_add(inner.size.saturating_mul(inner.times)).min(MOST);
    }
}

/// How often a compiler repeats the body of a loop, from its head: `for (int i = 0; i < 8; ++i) {`.
fn unrolled(head: &str) -> u32 {
    let [unknown, most] = UNROLLED;
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let mut clauses = head.split(';');
    let from = clauses.next().and_then(|first| number(first.rsplit_once('=')?.1));
    let condition = clauses.next().unwrap_or_default();
    let to = match condition.split_once("<=") {
        Some((_, last)) => number(last).map(|last| last.saturating_add(1)),
        None => condition.split_once('<').and_then(|(_, end)| number(end)),
    };
    match (from, to) {
        (Some(from), Some(to)) => u32::try_from(to.saturating_sub(from)).unwrap_or(0).min(most),
        _ => unknown,
    }
}

/// The size of a line: its operators, elements of tensors, and calls.
fn line_size(line: &str, width: u32, helpers: &[(&str, u32)]) -> u32 {
    let mut size = 0u32;
    let bytes = line.as_bytes();
    let mut word = 0;
    for (i, &c) in bytes.iter().enumerate() {
        if c.is_ascii_alphanumeric() || c == b'_' {
            continue;
        }
        let name = &line[word..i];
        word = i + 1;
        size = size.saturating_add(match c {
            // an index is clamped
            b'(' if name.ends_with('_') => 6 + 4 * commas(&line[i + 1..]),
            b'(' => call_size(name, width, helpers),
            b'[' if !name.is_empty() => 4,
            b'/' | b'%' => 8 * width,
            b'+' | b'*' | b'^' | b'|' | b'&' | b'?' | b'<' | b'>' | b'!' => width,
            // a sign belongs to a literal
            b'-' if bytes.get(i + 1) == Some(&b' ') => width,
            _ => 0,
        });
    }
    size
}

/// The number of commas between arguments, up to the parenthesis that ends them.
fn commas(arguments: &str) -> u32 {
    let mut depth = 0;
    let inside = arguments.chars().take_while(|c| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth >= 0
    });
    let mut depth = 0;
    let at_top = inside.filter(|c| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        *c == ',' && depth == 0
    });
    u32::try_from(at_top.count()).unwrap_or(MOST)
}

/// The size of a call.
fn call_size(name: &str, width: u32, helpers: &[(&str, u32)]) -> u32 {
    if let Some((_, size)) = helpers.iter().find(|(helper, _)| *helper == name) {
        return *size;
    }
    let listed = FUNCTIONS.iter().find(|(_, names)| names.contains(&name)).map(|(size, _)| size * width);
    match name {
        "" | "if" | "for" => 0,
        _ => listed.unwrap_or(width),
    }
}

/// The text with loops that the compiler does not unroll if their bodies are long, unless `#[unroll]` asks for it.
fn with_rolled_loops(text: &str, helpers: &[(&str, u32)]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let asked = at > 0 && lines[at - 1].trim_start().starts_with("#pragma unroll");
        if code.starts_with("for (") && !asked {
            let close = format!("{}}}", &line[..line.len() - code.len()]);
            let body: Vec<&str> = lines[at + 1..].iter().copied().take_while(|line| *line != close).collect();
            if size(&body.join("\n"), helpers) > LOOP_BODY {
                out += "#pragma unroll 1\n";
            }
        }
        out += line;
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{LOOP, size, with_rolled_loops};

    #[test]
    fn a_loop_counts_as_often_as_a_compiler_unrolls_it() {
        let body = "x = a_[i] + x;\n";
        let once = size(body, &[]);
        let within = |head: &str| size(&format!("{head} {{\n  {body}}}\n"), &[]) - size(head, &[]);
        assert_eq!(within("for (int i = 0; i < 8; ++i)"), 8 * once);
        assert_eq!(within("for (int i = 2; i <= 4; ++i)"), 3 * once);
        assert_eq!(within("for (int i = 0; i < 100; ++i)"), 16 * once);
        assert_eq!(within("for (int i = 0; i < n_; ++i)"), 4 * once);
        assert!(size("for (int i = 0; i < n_; ++i) {\n}\n", &[]) > LOOP);
        assert_eq!(within("#pragma unroll 1\nfor (int i = 0; i < 8; ++i)"), once);
    }

    #[test]
    fn a_helper_counts_at_each_call() {
        let helpers = [("mix_fn", 50)];
        assert_eq!(size("return mix_fn(mix_fn(a, b), c);\n", &helpers), 100);
        assert!(size("return u64(a) % b;\n", &[]) > size("return int(a) % b;\n", &[]));
    }

    #[test]
    fn loops_with_long_bodies_are_rolled() {
        let text = |head: &str, body: &str| format!("{head}for (int i = 0; i < n_; ++i) {{\n  {body}\n}}\n");
        let long = "s = (s / a) % b + (s / c) % d;";
        let rolled = with_rolled_loops(&text("", long), &[]);
        assert_eq!(rolled, text("#pragma unroll 1\n", long));
        for kept in [text("", "s += a_[i];"), text("#pragma unroll 2\n", long)] {
            assert_eq!(with_rolled_loops(&kept, &[]), kept);
        }
    }
}
