//! Reads an expression.

use super::error::ExprError;
use super::token::{Token, Tokens};
use super::variant::Variant;
use crate::lang::{ParamError, ParamValue, ParamValues};
use crate::nearest::nearest;
use crate::registry::Registry;

/// How deep lists may be nested: rank 2 is the most that a parameter takes.
const MAX_DEPTH: u32 = 8;

/// Reads an expression over the variants of a registry.
pub(super) fn parse(text: &str, registry: &Registry) -> Result<Variant, ExprError> {
    let mut tokens = Tokens::new(text);
    let mut variant = Variant::full();
    loop {
        variant = part(&mut tokens, registry, variant)?;
        if tokens.peek() == Token::End {
            return variant.checked();
        }
        if !tokens.eat('+') {
            return Err(tokens.expected("`+` or the end"));
        }
    }
}

/// `name(arg, ..)`, added to what came before.
fn part(tokens: &mut Tokens<'_>, registry: &Registry, variant: Variant) -> Result<Variant, ExprError> {
    let column = tokens.column();
    let Token::Name(name) = tokens.peek() else { return Err(tokens.expected("the name of a variant")) };
    if super::RESERVED.contains(&name) {
        return Err(tokens.expected("the name of a variant"));
    }
    // before its arguments: an unknown name is the first thing to say
    let known = known(name, registry);
    if !known {
        return Err(unknown(name, registry, Some(column)));
    }
    tokens.take();
    let (values, columns) = if tokens.eat('(') { args(tokens, name)? } else { Default::default() };
    add(variant, name, &values, registry).map_err(|error| match error {
        ExprError::Param { variant, source, .. } => {
            let column = param_of(&source)
                .and_then(|p| values.0.iter().position(|(n, _)| n == p))
                .map_or(column, |i| columns[i]);
            ExprError::Param { column: Some(column), variant, source }
        }
        other => other,
    })
}

/// Adds a part by name.
pub(super) fn add(
    variant: Variant,
    name: &str,
    values: &ParamValues,
    registry: &Registry,
) -> Result<Variant, ExprError> {
    let param = |source| ExprError::Param { column: None, variant: name.to_owned(), source: Box::new(source) };
    match registry.get(name) {
        Some(desc) => Ok(variant.push((desc.make)(values).map_err(param)?)),
        None if name == IDENTITY => match values.0.first() {
            None => Ok(variant),
            Some((n, _)) => Err(param(ParamError::Unknown { name: n.clone(), nearest: None, known: vec![] })),
        },
        None => Err(unknown(name, registry, None)),
    }
}

/// The identity, known even to an empty registry.
const IDENTITY: &str = "full";

fn known(name: &str, registry: &Registry) -> bool {
    name == IDENTITY || registry.get(name).is_some()
}

fn unknown(name: &str, registry: &Registry, column: Option<usize>) -> ExprError {
    let mut names = registry.names();
    if !names.contains(&IDENTITY) {
        names.push(IDENTITY);
        names.sort_unstable();
    }
    ExprError::UnknownVariant {
        column,
        name: name.to_owned(),
        nearest: nearest(name, names.iter().copied()).map(str::to_owned),
        known: names.into_iter().map(str::to_owned).collect(),
    }
}

/// The parameter that an error is about, without `[i]`.
fn param_of(error: &ParamError) -> Option<&str> {
    match error {
        ParamError::Unknown { name, .. }
        | ParamError::Type { name, .. }
        | ParamError::Range { name, .. }
        | ParamError::Require { name, .. }
        | ParamError::Twice { name } => name.split('[').next(),
        ParamError::Missing { .. } => None,
    }
}

/// What follows the opening bracket: values by name, and the column of each.
fn args(tokens: &mut Tokens<'_>, variant: &str) -> Result<(ParamValues, Vec<usize>), ExprError> {
    let (mut values, mut columns) = (ParamValues::default(), Vec::new());
    while !tokens.eat(')') {
        let column = tokens.column();
        let Token::Name(name) = tokens.peek() else {
            return Err(tokens.expected("the name of a parameter, or `)`"));
        };
        if values.get(name).is_some() {
            let source = Box::new(ParamError::Twice { name: name.to_owned() });
            return Err(ExprError::Param { column: Some(column), variant: variant.to_owned(), source });
        }
        tokens.take();
        if !tokens.eat('=') {
            return Err(tokens.expected(&format!("`=` and the value of `{name}`")));
        }
        values.0.push((name.to_owned(), value(tokens, 0)?));
        columns.push(column);
        if !tokens.eat(',') && tokens.peek() != Token::Mark(')') {
            return Err(tokens.expected("`,` or `)`"));
        }
    }
    Ok((values, columns))
}

fn value(tokens: &mut Tokens<'_>, depth: u32) -> Result<ParamValue, ExprError> {
    const EXPECTED: &str = "a value: a number, `true`, `false`, or a list in `[ ]`";
    let value = match tokens.peek() {
        Token::Name("true") => ParamValue::Bool(true),
        Token::Name("false") => ParamValue::Bool(false),
        Token::Name("inf") => ParamValue::Float(f64::INFINITY),
        Token::Name("nan") => ParamValue::Float(f64::NAN),
        Token::Number("-inf") => ParamValue::Float(f64::NEG_INFINITY),
        Token::Number(written) => number(written).ok_or_else(|| tokens.expected(EXPECTED))?,
        Token::Mark('[') if depth < MAX_DEPTH => {
            tokens.take();
            return list(tokens, depth);
        }
        _ => return Err(tokens.expected(EXPECTED)),
    };
    tokens.take();
    Ok(value)
}

/// What follows the opening bracket of a list.
fn list(tokens: &mut Tokens<'_>, depth: u32) -> Result<ParamValue, ExprError> {
    let mut values = Vec::new();
    while !tokens.eat(']') {
        values.push(value(tokens, depth + 1)?);
        if !tokens.eat(',') && tokens.peek() != Token::Mark(']') {
            return Err(tokens.expected("`,` or `]`"));
        }
    }
    Ok(ParamValue::List(values))
}

/// A number as Rust writes it: whole if it has no point and no exponent, and fits.
fn number(written: &str) -> Option<ParamValue> {
    let digits = written.strip_prefix('-').unwrap_or(written);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.chars().any(|c| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '_' | '.' | 'e' | 'E' | '+' | '-'));
    if !plain {
        return None;
    }
    let text = written.replace('_', "");
    text.parse().map(ParamValue::Int).ok().or_else(|| text.parse().map(ParamValue::Float).ok())
}
