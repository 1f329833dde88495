//! Constants of a text, and those of the standard library that hooks may name.

use std::collections::HashMap;

use attn_core::lang::ConstValue;
use syn::{Expr, ItemConst, Type};

use crate::condition::{Ex, NoNames, Number};
use crate::path::last_name;

/// The constants of a text by name, evaluated where they are of a type that hooks can use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants(HashMap<String, ConstValue>);

impl Constants {
    /// Adds a constant, whose expression may name those before it. One that no hook can use is left out: its use is
    /// an error then.
    pub(crate) fn add(&mut self, item: &ItemConst) {
        if let Some(value) = self.evaluate(&item.ty, &item.expr) {
            self.0.insert(item.ident.to_string(), value);
        }
    }

    /// The constant that a path ends in.
    pub(crate) fn get(&self, path: &syn::Path) -> Option<ConstValue> {
        self.of_text(path).copied().or_else(|| typed(named_constant(path)?, &float_or_int(path)))
    }

    /// The constant of the text that a path names, which may go through modules: a constant of a type, `i32::MAX` or
    /// `Self::MAX`, is another one.
    fn of_text(&self, path: &syn::Path) -> Option<&ConstValue> {
        let before = path.segments.iter().rev().nth(1).map(|segment| segment.ident.to_string());
        let of_type = before.is_some_and(|name| {
            ["f32", "f64", "i32", "u32", "i64", "u64", "u8", "bool", "usize", "consts"].contains(&&*name)
                || name.starts_with(char::is_uppercase)
        });
        if of_type { None } else { self.0.get(&last_name(path)) }
    }

    /// The value of an expression of a type.
    pub(crate) fn evaluate(&self, ty: &Type, expr: &Expr) -> Option<ConstValue> {
        let Type::Path(ty) = ty else { return None };
        let number = Ex::of(expr, &|path| self.number(path)).ok()?.value(&NoNames).ok()?;
        typed(number, &last_name(&ty.path))
    }

    /// The constant of a path as a number.
    pub(crate) fn number(&self, path: &syn::Path) -> Option<Number> {
        Some(match self.of_text(path)? {
            ConstValue::F32(x) => Number::Float(*x),
            ConstValue::I32(x) => Number::Int((*x).into()),
            ConstValue::U32(x) => Number::Int((*x).into()),
            ConstValue::I64(x) => Number::Int(*x),
            ConstValue::U64(x) => Number::Int(i64::try_from(*x).ok()?),
            ConstValue::Bool(x) => Number::Bool(*x),
            ConstValue::Enum(..) => return None,
        })
    }
}

fn typed(number: Number, ty: &str) -> Option<ConstValue> {
    Some(match (ty, number) {
        ("f32", Number::Float(x)) => ConstValue::F32(x),
        ("i32", Number::Int(x)) => ConstValue::I32(i32::try_from(x).ok()?),
        ("u32", Number::Int(x)) => ConstValue::U32(u32::try_from(x).ok()?),
        ("i64", Number::Int(x)) => ConstValue::I64(x),
        ("u64", Number::Int(x)) => ConstValue::U64(u64::try_from(x).ok()?),
        ("bool", Number::Bool(x)) => ConstValue::Bool(x),
        _ => return None,
    })
}

/// The type of a constant of the standard library, from its path: `f32::consts::LN_2` is an f32.
fn float_or_int(path: &syn::Path) -> String {
    let types = ["f32", "i32", "u32", "i64", "u64"];
    let names = path.segments.iter().map(|segment| segment.ident.to_string());
    names.rev().find(|name| types.contains(&name.as_str())).unwrap_or_default()
}

/// A constant of the standard library: `f32::INFINITY`, `i32::MAX`, `std::f32::consts::LN_2`.
pub(crate) fn named_constant(path: &syn::Path) -> Option<Number> {
    use std::f32::consts;
    let name = last_name(path);
    Some(match (float_or_int(path).as_str(), name.as_str()) {
        ("f32", name) => Number::Float(match name {
            "INFINITY" => f32::INFINITY,
            "NEG_INFINITY" => f32::NEG_INFINITY,
            "NAN" => f32::NAN,
            "MAX" => f32::MAX,
            "MIN" => f32::MIN,
            "MIN_POSITIVE" => f32::MIN_POSITIVE,
            "EPSILON" => f32::EPSILON,
            "PI" => consts::PI,
            "TAU" => consts::TAU,
            "E" => consts::E,
            "LN_2" => consts::LN_2,
            "LN_10" => consts::LN_10,
            "LOG2_E" => consts::LOG2_E,
            "LOG10_E" => consts::LOG10_E,
            "SQRT_2" => consts::SQRT_2,
            "FRAC_1_SQRT_2" => consts::FRAC_1_SQRT_2,
            "FRAC_1_PI" => consts::FRAC_1_PI,
            "FRAC_2_PI" => consts::FRAC_2_PI,
            "FRAC_2_SQRT_PI" => consts::FRAC_2_SQRT_PI,
            "FRAC_PI_2" => consts::FRAC_PI_2,
            "FRAC_PI_4" => consts::FRAC_PI_4,
            _ => return None,
        }),
        ("i32", "MAX") => Number::Int(i32::MAX.into()),
        ("i32", "MIN") => Number::Int(i32::MIN.into()),
        ("u32", "MAX") => Number::Int(u32::MAX.into()),
        ("i64", "MAX") => Number::Int(i64::MAX),
        ("i64", "MIN") => Number::Int(i64::MIN),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_name_those_before_them() {
        let mut constants = Constants::default();
        let items: syn::File = syn::parse_str(
            "const A: f32 = 2.0; const B: f32 = A * std::f32::consts::LN_2; const C: i32 = -(1 + 2); \
             const D: [f32; 1] = [1.0]; const E: u32 = C;",
        )
        .expect("items");
        for item in &items.items {
            let syn::Item::Const(item) = item else { panic!("a constant") };
            constants.add(item);
        }
        let get = |text: &str| constants.get(&syn::parse_str(text).expect("a path"));
        assert_eq!(get("B"), Some(ConstValue::F32(2.0 * std::f32::consts::LN_2)));
        assert_eq!(get("self::C"), Some(ConstValue::I32(-3)));
        assert_eq!(get("f32::INFINITY"), Some(ConstValue::F32(f32::INFINITY)));
        assert_eq!((get("D"), get("E"), get("F")), (None, None, None), "no type of a hook, out of range, unknown");
    }

    #[test]
    fn a_constant_of_a_type_is_not_the_one_of_the_text() {
        let mut constants = Constants::default();
        let items: syn::File =
            syn::parse_str("const MAX: i32 = 100; const PI: f32 = 3.0; const W: i32 = i32::MAX;").expect("items");
        for item in &items.items {
            let syn::Item::Const(item) = item else { panic!("a constant") };
            constants.add(item);
        }
        let get = |text: &str| constants.get(&syn::parse_str(text).expect("a path"));
        assert_eq!((get("MAX"), get("masks::MAX")), (Some(ConstValue::I32(100)), Some(ConstValue::I32(100))));
        assert_eq!((get("i32::MAX"), get("W")), (Some(ConstValue::I32(i32::MAX)), Some(ConstValue::I32(i32::MAX))));
        assert_eq!(get("std::f32::consts::PI"), Some(ConstValue::F32(std::f32::consts::PI)));
        assert_eq!((get("Self::MAX"), get("Near::MAX")), (None, None));
    }
}
