//! Tensor parameters of a variant that were not given and have no default: filled from the seed, by their shape.

use std::iter::Peekable;
use std::str::Chars;

use crate::expr::ExprError;
use crate::lang::desc::Elem;
use crate::lang::{Dims, FieldDesc, FieldType, ParamError, ParamValue, ParamValues};
use crate::registry::Registry;
use crate::{Error, Variant};

use super::TestError;
use super::random::Random;

/// The variant of an expression, complete: what a user would have to give is made up.
///
/// Floats are N(0, 1); integers are in `0..4` and sorted, so that they serve as document numbers.
pub(super) fn variant(text: &str, registry: &Registry, dims: &Dims, seed: u64) -> Result<Variant, TestError> {
    let mut text = text.to_owned();
    let mut made_up: Vec<(String, String)> = Vec::new();
    // a missing tensor is an error of the parser: give a placeholder, and the values once the shape can be known
    let mut variant = loop {
        let error = match Variant::parse_with(&text, registry) {
            Ok(variant) => break variant,
            Err(error) => error,
        };
        let Some((column, part, name, rank)) = missing_tensor(&error, registry) else {
            return Err(Error::from(error).into());
        };
        if made_up.contains(&(part.clone(), name.clone())) {
            return Err(Error::from(error).into()); // a part twice: which one is meant cannot be said
        }
        text = with_arg(&text, column, &format!("{name}={}", if rank == 1 { "[0]" } else { "[[0]]" }));
        made_up.push((part, name));
    };
    for (stream, (part, name)) in made_up.iter().enumerate() {
        let Some(values) = variant.parts().find(|p| p.desc().name == part).map(|p| p.to_values()) else { continue };
        let Some(field) = registry.get(part).and_then(|d| d.fields.iter().find(|f| f.name == name)) else { continue };
        let value = values_for(field, dims, &values, &mut Random::new(seed, 1000 + stream as u64))?;
        variant.set(&format!("{part}.{name}"), value).map_err(Error::from)?;
    }
    Ok(variant)
}

/// Column and name of the part, name and rank of its tensor, if the error is that it was not given.
fn missing_tensor(error: &ExprError, registry: &Registry) -> Option<(usize, String, String, u8)> {
    let ExprError::Param { column: Some(column), variant, source } = error else { return None };
    let ParamError::Missing { name, .. } = &**source else { return None };
    let field = registry.get(variant)?.fields.iter().find(|f| f.name == name)?;
    match field.ty {
        FieldType::Tensor { rank, .. } => Some((*column, variant.clone(), name.clone(), rank)),
        FieldType::Scalar(_) => None,
    }
}

/// Adds an argument to the part at a column (counted from 1) of an expression.
fn with_arg(text: &str, column: usize, arg: &str) -> String {
    let start = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    let name = text[start..].find(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(text.len(), |n| start + n);
    let rest = text[name..].trim_start();
    match rest.strip_prefix('(') {
        Some(rest) if rest.trim_start().starts_with(')') => format!("{}({arg}{rest}", &text[..name]),
        Some(rest) => format!("{}({arg}, {rest}", &text[..name]),
        None => format!("{}({arg}) {rest}", &text[..name]),
    }
}

fn values_for(
    field: &FieldDesc,
    dims: &Dims,
    scalars: &ParamValues,
    random: &mut Random,
) -> Result<ParamValue, TestError> {
    let bad = |why: String| TestError::Shape { name: field.name.to_owned(), shape: field.shape.to_owned(), why };
    let extents = extents(field.shape, &|word| word_value(word, dims, scalars)).map_err(bad)?;
    let count: i64 = extents.iter().try_fold(1i64, |n, &x| n.checked_mul(x)).unwrap_or(i64::MAX);
    if extents.iter().any(|&x| x < 1) || count > 1 << 24 {
        return Err(bad(format!("extents {extents:?} are not in 1 to 2^24 elements")));
    }
    let elem = match field.ty {
        FieldType::Tensor { elem, .. } | FieldType::Scalar(elem) => elem,
    };
    let mut flat: Vec<ParamValue> = match elem {
        Elem::F32 => (0..count).map(|_| ParamValue::Float(f64::from(random.normal()))).collect(),
        _ => {
            let mut whole: Vec<i64> = (0..count).map(|_| random.below(4) as i64).collect();
            whole.sort_unstable();
            whole.into_iter().map(ParamValue::Int).collect()
        }
    };
    if let [_, columns] = extents[..] {
        flat = flat.chunks(columns as usize).map(|row| ParamValue::List(row.to_vec())).collect();
    }
    Ok(ParamValue::List(flat))
}

fn word_value(word: &str, dims: &Dims, scalars: &ParamValues) -> Option<i64> {
    match word {
        "qo_heads" => dims.qo_heads,
        "kv_heads" => dims.kv_heads,
        "head_dim" => dims.head_dim,
        "batch" => dims.batch,
        "qo_tokens" => dims.qo_tokens,
        "kv_tokens" => dims.kv_tokens,
        field => match scalars.get(field) {
            Some(ParamValue::Int(x)) => Some(*x),
            _ => None,
        },
    }
}

/// Evaluates `qo_heads, 2 * max_distance + 1`.
fn extents(shape: &str, word: &dyn Fn(&str) -> Option<i64>) -> Result<Vec<i64>, String> {
    let mut reader = Reader { chars: shape.chars().peekable(), word };
    let mut extents = vec![reader.sum()?];
    while reader.eat(',') {
        if reader.peek().is_none() {
            break; // a trailing comma
        }
        extents.push(reader.sum()?);
    }
    match reader.peek() {
        None => Ok(extents),
        Some(c) => Err(format!("`{c}` is not understood")),
    }
}

/// A calculator of whole numbers, words, `+ - * /` and brackets.
struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    word: &'a dyn Fn(&str) -> Option<i64>,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
        self.chars.peek().copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.peek() == Some(wanted) && self.chars.next().is_some()
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut left = self.product()?;
        loop {
            let next = if self.eat('+') {
                let right = self.product()?;
                left.checked_add(right)
            } else if self.eat('-') {
                let right = self.product()?;
                left.checked_sub(right)
            } else {
                return Ok(left);
            };
            left = next.ok_or("it overflows")?;
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut left = self.atom()?;
        loop {
            let next = if self.eat('*') {
                let right = self.atom()?;
                left.checked_mul(right)
            } else if self.eat('/') {
                let right = self.atom()?;
                left.checked_div(right)
            } else {
                return Ok(left);
            };
            left = next.ok_or("it overflows, or divides by zero")?;
        }
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.eat('(') {
            let inner = self.sum()?;
            return if self.eat(')') { Ok(inner) } else { Err("a `)` is missing".to_owned()) };
        }
        self.peek();
        let mut text = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
            text.push(c);
        }
        let name = text.strip_prefix("self.").unwrap_or(&text);
        if let Ok(number) = name.parse() {
            return Ok(number);
        }
        (self.word)(name).ok_or_else(|| format!("`{name}` has no known value"))
    }
}

#[cfg(test)]
mod tests {
    use super::{extents, with_arg};

    #[test]
    fn shapes_are_evaluated() {
        let word = |w: &str| match w {
            "qo_heads" => Some(8),
            "max_distance" => Some(3),
            _ => None,
        };
        assert_eq!(extents("qo_heads, 2 * max_distance + 1", &word), Ok(vec![8, 7]));
        assert_eq!(extents("(qo_heads - 2) / 3,", &word), Ok(vec![2]));
        for bad in ["rows", "qo_heads / 0", "(2", "2 % 3", ""] {
            assert!(extents(bad, &word).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_argument_goes_where_the_part_is() {
        assert_eq!(with_arg("causal + sink", 10, "x=[0]"), "causal + sink(x=[0]) ");
        assert_eq!(with_arg("sink() + causal", 1, "x=[0]"), "sink(x=[0]) + causal");
        assert_eq!(with_arg("a + b(y=1)", 5, "x=[0]"), "a + b(x=[0], y=1)");
    }
}
