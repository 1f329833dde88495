//! A recursive-descent parser of expressions.

use std::collections::HashSet;

use super::budget::{PartsLeft, check_name, check_text};
use super::error::ExprError;
use super::token::{Token, Tokens};
use super::tree::Node;
use super::tree::Variant;
use crate::lang::keywords::{COMBINATORS, is_reserved};
use crate::lang::kv_format::{ErasedKvFormat, KvFormats};
use crate::lang::params::ParamField;
use crate::lang::{ComposeError, ErasedVariant, FieldType, ParamError, ParamValue, ParamValues};
use crate::nearest::nearest;
use crate::registry::Registry;

/// The greatest nesting of combinators and brackets.
pub(super) const MAX_DEPTH: usize = 24;
/// The greatest nesting of lists; parameter tensors have a rank of at most 4.
const MAX_LIST_DEPTH: u32 = 8;

/// The expected text of an item, for error messages.
const ITEM: &str = "the name of a variant, or `(`";

/// Reads and checks an expression over the variants of a registry.
pub(super) fn parse(text: &str, registry: &Registry) -> Result<Variant, ExprError> {
    read(text, registry, 0, &PartsLeft::new())?.checked()
}

/// Reads a variant with parameters beside the text, by their paths.
pub(super) fn parse_with_values(
    text: &str,
    registry: &Registry,
    given: &[(String, ParamValue)],
) -> Result<Variant, ExprError> {
    check_text(text)?;
    Parser { tokens: Tokens::new(text), registry, left: &PartsLeft::new(), given }.all(0)?.checked()
}

/// Reads an expression at nesting `depth`, without checking that its parts compose.
pub(super) fn read(text: &str, registry: &Registry, depth: usize, left: &PartsLeft) -> Result<Variant, ExprError> {
    check_text(text)?;
    Parser { tokens: Tokens::new(text), registry, left, given: &[] }.all(depth)
}

/// Reads `format` or `format / format` over the KV formats of a registry.
pub(super) fn formats(text: &str, registry: &Registry) -> Result<KvFormats, ExprError> {
    check_text(text)?;
    let mut tokens = Tokens::new(text);
    let k = format(&mut tokens, registry)?;
    let v = match tokens.peek() {
        Token::Stray('/') => {
            tokens.take();
            format(&mut tokens, registry)?
        }
        _ => k.clone(),
    };
    if tokens.peek() == Token::End { Ok(KvFormats::of(k, v)) } else { Err(tokens.expected("`/`, or the end")) }
}

/// `name(arg, ..)`.
fn format(tokens: &mut Tokens<'_>, registry: &Registry) -> Result<Box<dyn ErasedKvFormat>, ExprError> {
    let column = tokens.column();
    let Token::Name(name) = tokens.peek() else { return Err(tokens.expected("the name of a KV format")) };
    check_name(name)?;
    let Some(desc) = registry.kv_format(name) else {
        let known: Vec<&str> = registry.kv_formats().map(|desc| desc.name).collect();
        return Err(ExprError::UnknownKvFormat {
            column: Some(column),
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        });
    };
    tokens.take();
    let (values, columns) = if tokens.eat('(') { args(tokens, name)? } else { Default::default() };
    (desc.make)(desc, &values).map_err(|source| ExprError::Param {
        column: Some(column_of(&source, &values, &columns).unwrap_or(column)),
        variant: name.to_owned(),
        source: Box::new(source),
    })
}

struct Parser<'t, 'r> {
    tokens: Tokens<'t>,
    registry: &'r Registry,
    left: &'r PartsLeft,
    /// Parameters beside the text, by their paths.
    given: &'r [(String, ParamValue)],
}

impl Parser<'_, '_> {
    /// The whole text.
    fn all(&mut self, depth: usize) -> Result<Variant, ExprError> {
        let variant = self.expr(depth)?;
        match self.tokens.peek() {
            Token::End => Ok(variant),
            _ => Err(self.tokens.expected("`+` or the end")),
        }
    }

    /// Items joined by `+`, up to the first other token.
    fn expr(&mut self, depth: usize) -> Result<Variant, ExprError> {
        let mut variant = self.item(depth)?;
        while self.tokens.eat('+') {
            variant = variant.append(self.item(depth)?);
        }
        Ok(variant)
    }

    fn item(&mut self, depth: usize) -> Result<Variant, ExprError> {
        if depth > MAX_DEPTH {
            return Err(self
                .tokens
                .expected(&format!("at most {MAX_DEPTH} combinators and brackets inside each other")));
        }
        match self.tokens.peek() {
            Token::Mark('(') => {
                self.tokens.take();
                let variant = self.expr(depth + 1)?;
                if self.tokens.eat(')') { Ok(variant) } else { Err(self.tokens.expected("`+` or `)`")) }
            }
            Token::Name(name) if COMBINATORS.contains(&name) => self.combinator(name, depth + 1),
            Token::Name(name) if !is_reserved(name) => {
                Ok(self.part()?.into_iter().fold(Variant::full(), Variant::push))
            }
            _ => Err(self.tokens.expected(ITEM)),
        }
    }

    /// `or(a, b)` and the like.
    fn combinator(&mut self, name: &str, depth: usize) -> Result<Variant, ExprError> {
        let column = self.tokens.column();
        self.tokens.take();
        if !self.tokens.eat('(') {
            return Err(self.tokens.expected(&format!("`(` and the operands of `{name}`")));
        }
        let node = match name {
            "or" => Node::or(self.operands(depth, 2)?),
            "union" => Node::union(self.operands(depth, 2)?),
            "not" => {
                let mask = self.expr(depth)?;
                self.tokens.eat(',');
                self.close("`+` or `)`")?;
                Node::Not(mask)
            }
            "remap" => {
                let map = match self.tokens.peek() {
                    Token::Name(map) if !is_reserved(map) => map.to_owned(),
                    _ => return Err(self.tokens.expected("the name of a variant that rewrites positions")),
                };
                let map = self.part()?.ok_or(ComposeError::NotAMap { part: map })?;
                if !self.tokens.eat(',') {
                    return Err(self.tokens.expected("`,` and what sees the positions"));
                }
                let inner = self.expr(depth)?;
                self.tokens.eat(',');
                self.close("`+` or `)`")?;
                Node::Remap { map, inner }
            }
            _ => self.per_head(column, depth)?,
        };
        Ok(node.into())
    }

    /// At least `least` expressions, up to the closing bracket.
    fn operands(&mut self, depth: usize, least: usize) -> Result<Vec<Variant>, ExprError> {
        let mut operands = Vec::new();
        loop {
            operands.push(self.expr(depth)?);
            let more = self.tokens.eat(',');
            if operands.len() >= least && self.tokens.eat(')') {
                return Ok(operands);
            }
            if !more {
                let expected =
                    if operands.len() < least { "`+`, or `,` and another operand" } else { "`+`, `,` or `)`" };
                return Err(self.tokens.expected(expected));
            }
        }
    }

    /// `heads=[..]` and the branches.
    fn per_head(&mut self, column: usize, depth: usize) -> Result<Node, ExprError> {
        let param = |column, source| ExprError::Param {
            column: Some(column),
            variant: "per_head".to_owned(),
            source: Box::new(source),
        };
        let (mut heads, mut branches) = (None, Vec::new());
        while !self.tokens.eat(')') {
            match self.tokens.peek() {
                Token::Name(name) if self.tokens.is_followed_by('=') => {
                    check_name(name)?;
                    let column = self.tokens.column();
                    let name = name.to_owned();
                    if name != "heads" {
                        let near = nearest(&name, ["heads"]).map(str::to_owned);
                        let unknown = ParamError::Unknown { name, nearest: near, known: vec!["heads".to_owned()] };
                        return Err(param(column, unknown));
                    }
                    if heads.is_some() {
                        return Err(param(column, ParamError::Twice { name }));
                    }
                    self.tokens.take();
                    self.tokens.take();
                    let value = value(&mut self.tokens, 0)?;
                    heads = Some(head_table(&value).map_err(|source| param(column, source))?);
                }
                _ => branches.push(self.expr(depth)?),
            }
            if !self.tokens.eat(',') && self.tokens.peek() != Token::Mark(')') {
                return Err(self.tokens.expected("`+`, `,` or `)`"));
            }
        }
        let missing = || ParamError::Missing { name: "heads".to_owned(), ty: "a list of i32".to_owned() };
        Ok(Node::per_head(heads.ok_or_else(|| param(column, missing()))?, branches))
    }

    fn close(&mut self, expected: &str) -> Result<(), ExprError> {
        if self.tokens.eat(')') { Ok(()) } else { Err(self.tokens.expected(expected)) }
    }

    /// `name(arg, ..)`; `None` for the identity `full` if the registry lacks it.
    fn part(&mut self) -> Result<Option<Box<dyn ErasedVariant>>, ExprError> {
        let column = self.tokens.column();
        let Token::Name(name) = self.tokens.take() else { return Err(self.tokens.expected(ITEM)) };
        check_name(name)?;
        self.left.take()?;
        // an unknown name is reported before its arguments are read
        if !known(name, self.registry) {
            return Err(unknown(name, self.registry, Some(column)));
        }
        let (mut values, mut columns) =
            if self.tokens.eat('(') { args(&mut self.tokens, name)? } else { Default::default() };
        // a scalar without a default may be given beside the text; all others are set afterwards
        for field in self.registry.get(name).map_or(&[][..], |desc| desc.fields) {
            let is_needed = matches!(field.ty, FieldType::Scalar(_)) && field.default.is_none();
            let beside = self.given.iter().find(|(path, _)| {
                path == field.name || path.split_once('.').is_some_and(|of| of == (name, field.name))
            });
            if let Some((_, value)) = beside.filter(|_| is_needed && values.get(field.name).is_none()) {
                values.set(field.name, value.clone());
                columns.push(column);
            }
        }
        part_by_name(name, &values, self.registry).map_err(|error| match error {
            ExprError::Param { variant, source, .. } => {
                let column = column_of(&source, &values, &columns).unwrap_or(column);
                ExprError::Param { column: Some(column), variant, source }
            }
            other => other,
        })
    }
}

/// The value of `heads`: the branch of each query head.
fn head_table(value: &ParamValue) -> Result<Vec<i32>, ParamError> {
    let ParamValue::List(values) = value else {
        let (name, ty) = ("heads".to_owned(), "a list of i32".to_owned());
        return Err(ParamError::Type { name, ty, got: value.to_string() });
    };
    values.iter().enumerate().map(|(i, value)| i32::from_value(&format!("heads[{i}]"), value)).collect()
}

/// A part by name; `None` for the identity `full` if the registry lacks it.
pub(super) fn part_by_name(
    name: &str,
    values: &ParamValues,
    registry: &Registry,
) -> Result<Option<Box<dyn ErasedVariant>>, ExprError> {
    let param = |source| ExprError::Param { column: None, variant: name.to_owned(), source: Box::new(source) };
    check_name(name)?;
    match registry.get(name) {
        Some(desc) => (desc.make)(desc, values).map(Some).map_err(param),
        None if name == IDENTITY => match values.0.first() {
            None => Ok(None),
            Some((n, _)) => Err(param(ParamError::Unknown { name: n.clone(), nearest: None, known: vec![] })),
        },
        None => Err(unknown(name, registry, None)),
    }
}

/// The identity, which every registry knows.
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
        nearest: nearest(name, names.iter().copied().chain(COMBINATORS)).map(str::to_owned),
        known: names.into_iter().map(str::to_owned).collect(),
    }
}

/// The column of the parameter that an error names.
fn column_of(error: &ParamError, values: &ParamValues, columns: &[usize]) -> Option<usize> {
    let name = param_of(error)?;
    values.0.iter().position(|(n, _)| n == name).map(|i| columns[i])
}

/// The parameter that an error names, without an element index.
fn param_of(error: &ParamError) -> Option<&str> {
    match error {
        ParamError::Unknown { name, .. }
        | ParamError::Type { name, .. }
        | ParamError::Range { name, .. }
        | ParamError::Require { name, .. }
        | ParamError::Twice { name } => name.split('[').next(),
        ParamError::Missing { .. } | ParamError::HostHook { .. } => None,
    }
}

/// Arguments after the opening bracket, with their columns.
fn args(tokens: &mut Tokens<'_>, variant: &str) -> Result<(ParamValues, Vec<usize>), ExprError> {
    let (mut values, mut columns, mut seen) = (ParamValues::default(), Vec::new(), HashSet::new());
    while !tokens.eat(')') {
        let column = tokens.column();
        let Token::Name(name) = tokens.peek() else {
            return Err(tokens.expected("the name of a parameter, or `)`"));
        };
        check_name(name)?;
        if !seen.insert(name) {
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
        Token::Number(written) => match number(written).ok_or_else(|| tokens.expected(EXPECTED))? {
            ParamValue::Float(x) if x.is_infinite() => return Err(tokens.expected("a number up to 1.8e308, or `inf`")),
            value => value,
        },
        Token::Mark('[') if depth < MAX_LIST_DEPTH => {
            tokens.take();
            return list(tokens, depth);
        }
        _ => return Err(tokens.expected(EXPECTED)),
    };
    tokens.take();
    Ok(value)
}

/// The elements of a list after the opening bracket.
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

/// A number in Rust's syntax: an integer if it has no point or exponent and fits an i64.
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
