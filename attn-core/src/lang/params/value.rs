//! Parameter values by name.

use std::fmt;

/// A parameter value by name, as text, JSON or TOML give it.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A parameter tensor of rank 1, or the rows of a deeper one.
    List(Vec<ParamValue>),
}

impl ParamValue {
    /// Values as nested lists of a shape, in row-major order. Where there are fewer, the rest is 0.
    pub fn nested(shape: &[i64], values: &mut impl Iterator<Item = ParamValue>) -> Self {
        match shape {
            [] => values.next().unwrap_or(ParamValue::Int(0)),
            [len, inner @ ..] => ParamValue::List((0..*len).map(|_| Self::nested(inner, values)).collect()),
        }
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamValue::Bool(x) => write!(f, "{x}"),
            ParamValue::Int(x) => write!(f, "{x}"),
            // a text that reads back as the same number
            ParamValue::Float(x) if x.is_nan() => f.write_str("nan"),
            ParamValue::Float(x) if *x == 0.0 && x.is_sign_negative() => f.write_str("-0.0"),
            ParamValue::Float(x) if x.is_finite() && *x != 0.0 && !(1e-5..1e16).contains(&x.abs()) => {
                write!(f, "{x:e}")
            }
            ParamValue::Float(x) => write!(f, "{x}"),
            ParamValue::List(xs) => {
                f.write_str("[")?;
                for (i, x) in xs.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{x}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Parameter values by name, in the order given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamValues(pub Vec<(String, ParamValue)>);

impl ParamValues {
    /// Writes the call of a part in an expression: `soft_cap(cap=30)`.
    pub(crate) fn write_call(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        f.write_str(name)?;
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { "(" } else { ", " })?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
    /// Sets a name, in place when it is there.
    pub fn set(&mut self, name: &str, value: ParamValue) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some(slot) => slot.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}
