//! Methods of numbers.

use super::{Reader, expr::is_self};
use crate::{
    ir::{Expr, Kind},
    messages, names,
    report::Range,
    types::Ty,
};

/// What a method is called on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// f32.
    Float,
    /// Integers.
    Int,
    /// Either.
    Number,
}

/// The type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Sort {
    Same,
    Bool,
    U32,
    I32,
    Pair,
    /// The unsigned integer of the same width.
    Unsigned,
}

/// A method of Rust's numbers, under the same name in lang/lang.cuh.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Method {
    pub name: &'static str,
    pub on: On,
    pub args: &'static [Sort],
    pub result: Sort,
}

const fn m(name: &'static str, on: On, args: &'static [Sort], result: Sort) -> Method {
    Method { name, on, args, result }
}

use On::{Float, Int, Number};
use Sort::{Bool, I32, Pair, Same, U32, Unsigned};

/// Every method of the language.
pub const METHODS: &[Method] = &[
    m("abs", Number, &[], Same),
    m("min", Number, &[Same], Same),
    m("max", Number, &[Same], Same),
    m("clamp", Number, &[Same, Same], Same),
    m("signum", Number, &[], Same),
    m("rem_euclid", Number, &[Same], Same),
    m("div_euclid", Number, &[Same], Same),
    m("exp", Float, &[], Same),
    m("exp2", Float, &[], Same),
    m("exp_m1", Float, &[], Same),
    m("ln", Float, &[], Same),
    m("ln_1p", Float, &[], Same),
    m("log2", Float, &[], Same),
    m("log10", Float, &[], Same),
    m("sqrt", Float, &[], Same),
    m("recip", Float, &[], Same),
    m("sin", Float, &[], Same),
    m("cos", Float, &[], Same),
    m("sin_cos", Float, &[], Pair),
    m("tan", Float, &[], Same),
    m("tanh", Float, &[], Same),
    m("powi", Float, &[I32], Same),
    m("powf", Float, &[Same], Same),
    m("mul_add", Float, &[Same, Same], Same),
    m("floor", Float, &[], Same),
    m("ceil", Float, &[], Same),
    m("trunc", Float, &[], Same),
    m("fract", Float, &[], Same),
    m("round", Float, &[], Same),
    m("round_ties_even", Float, &[], Same),
    m("to_bits", Float, &[], U32),
    m("is_nan", Float, &[], Bool),
    m("is_finite", Float, &[], Bool),
    m("is_infinite", Float, &[], Bool),
    m("is_sign_negative", Float, &[], Bool),
    m("is_sign_positive", Float, &[], Bool),
    m("copysign", Float, &[Same], Same),
    m("pow", Int, &[U32], Same),
    m("wrapping_add", Int, &[Same], Same),
    m("wrapping_sub", Int, &[Same], Same),
    m("wrapping_mul", Int, &[Same], Same),
    m("wrapping_div", Int, &[Same], Same),
    m("wrapping_rem", Int, &[Same], Same),
    m("wrapping_pow", Int, &[U32], Same),
    m("wrapping_abs", Int, &[], Same),
    m("wrapping_neg", Int, &[], Same),
    m("wrapping_shl", Int, &[U32], Same),
    m("wrapping_shr", Int, &[U32], Same),
    m("saturating_add", Int, &[Same], Same),
    m("saturating_sub", Int, &[Same], Same),
    m("saturating_mul", Int, &[Same], Same),
    m("rotate_left", Int, &[U32], Same),
    m("rotate_right", Int, &[U32], Same),
    m("count_ones", Int, &[], U32),
    m("count_zeros", Int, &[], U32),
    m("leading_zeros", Int, &[], U32),
    m("trailing_zeros", Int, &[], U32),
    m("leading_ones", Int, &[], U32),
    m("trailing_ones", Int, &[], U32),
    m("reverse_bits", Int, &[], Same),
    m("is_positive", Int, &[], Bool),
    m("is_negative", Int, &[], Bool),
    m("div_ceil", Int, &[Same], Same),
    m("next_multiple_of", Int, &[Same], Same),
    m("next_power_of_two", Int, &[], Same),
    m("is_power_of_two", Int, &[], Bool),
    m("abs_diff", Int, &[Same], Unsigned),
    m("unsigned_abs", Int, &[], Unsigned),
];

impl Reader<'_> {
    pub(super) fn method_call(&mut self, e: &syn::ExprMethodCall) -> Expr {
        if is_self(&e.receiver) {
            return self.refused(e, messages::METHOD_ON_SELF);
        }
        if let Some(done) = self.tensor_method(e) {
            return done;
        }
        let receiver = self.expr(&e.receiver);
        if matches!(receiver.kind, Kind::Error) {
            return receiver;
        }
        if self.resolve(&receiver.ty) == Ty::Row {
            return self.row_method(e, &receiver);
        }
        if matches!(self.resolve(&receiver.ty), Ty::Device(_)) && e.method != "clone" {
            return self.refused(&e.method, messages::METHOD_OF_TYPE);
        }
        let args: Vec<&syn::Expr> = e.args.iter().collect();
        self.number_method(e, receiver, &e.method, &args)
    }

    pub(super) fn number_method(
        &mut self,
        whole: &impl quote::ToTokens,
        receiver: Expr,
        ident: &syn::Ident,
        args: &[&syn::Expr],
    ) -> Expr {
        let name = ident.to_string();
        let Some(method) = METHODS.iter().find(|m| m.name == name) else {
            for arg in args {
                self.expr(arg);
            }
            return self.unknown_method(ident, &name);
        };
        let ty = receiver.ty.clone();
        if method.on == Float {
            self.unify(&ty, &Ty::F32);
        }
        let resolved = self.resolve(&ty);
        if method.on == Int && resolved == Ty::F32 {
            return self.refused(ident, format!("`{name}` is a method of integers, and this is an f32"));
        }
        if method.on == Float && resolved != Ty::F32 {
            return self.refused(ident, format!("`{name}` is a method of f32: write `(x as f32).{name}(..)`"));
        }
        if args.len() != method.args.len() {
            return self.refused(ident, format!("`{name}` takes {} argument(s)", method.args.len()));
        }
        let mut values = vec![receiver];
        for (arg, sort) in args.iter().zip(method.args) {
            let want = self.sort(*sort, &ty);
            let value = self.expr_as(arg, &want);
            values.push(value);
        }
        let result = self.sort(method.result, &ty);
        Expr { kind: Kind::Call(method.name, values), ty: result, span: Range::of(whole) }
    }

    fn sort(&mut self, sort: Sort, receiver: &Ty) -> Ty {
        match sort {
            Same => receiver.clone(),
            Bool => Ty::Bool,
            U32 => Ty::U32,
            I32 => Ty::I32,
            Pair => Ty::pair(),
            Unsigned => match self.resolve(receiver) {
                Ty::I32 => Ty::U32,
                ty @ (Ty::U32 | Ty::U8 | Ty::U64) => ty,
                _ => self.shared.types.outside(),
            },
        }
    }

    fn unknown_method(&mut self, ident: &syn::Ident, name: &str) -> Expr {
        let hint = match name {
            "unwrap" | "expect" | "unwrap_or" => "a hook cannot fail, and has no Option".to_owned(),
            "iter" | "into_iter" | "iter_mut" => "write `for i in a..b`".to_owned(),
            "clone" | "to_owned" => "values are copied: leave it out".to_owned(),
            "into" | "try_into" => "write a cast: `x as f32`".to_owned(),
            "len" => "pass the length as a parameter".to_owned(),
            _ => match names::nearest(name, METHODS.iter().map(|m| m.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a hook has the methods of f32 and of integers that the language lists".to_owned(),
            },
        };
        self.refused(ident, format!("`{name}` is not available in a hook: {hint}"))
    }
}
