//! Methods of numbers.

use super::{
    ir_builder::IrBuilder,
    syntax::{is_self, strip},
};
use crate::{
    hook,
    ir::{Expr, Kind},
    messages,
    methods::{
        METHODS, NOT_AVAILABLE,
        On::{Float, Int},
        Sort::{self, Bool, I32, Pair, Same, U32, Unsigned},
    },
    names,
    report::SpanRange,
    types::Ty,
};

impl IrBuilder<'_> {
    pub(super) fn method_call(&mut self, e: &syn::ExprMethodCall) -> Expr {
        if is_self(&e.receiver) {
            return self.refused(e, messages::METHOD_ON_SELF);
        }
        if hook::NAMES.iter().any(|hook| e.method == hook) {
            return self.refused(e, messages::OTHER_HOOK);
        }
        if let Some(done) = self.tensor_method(e) {
            return done;
        }
        if matches!(strip(&e.receiver), syn::Expr::Range(_)) {
            return self.refused(&e.method, messages::ITERATOR);
        }
        let receiver = self.expr(&e.receiver);
        if matches!(receiver.kind, Kind::Error) {
            return receiver;
        }
        if self.resolve(&receiver.ty) == Ty::Row {
            return self.row_method(e, &receiver);
        }
        if self.resolve(&receiver.ty).is_stored_row() {
            return self.packed_method(e, &receiver);
        }
        if matches!(self.resolve(&receiver.ty), Ty::Device(_)) && e.method != "clone" {
            return self.refused(&e.method, messages::METHOD_OF_TYPE);
        }
        if let Some(found) = self.trait_method(e, &receiver) {
            return self.trait_call(e, receiver, found);
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
            self.unify(&Ty::F32, &ty, receiver.span);
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
        Expr { kind: Kind::Call(method.name, values), ty: result, span: SpanRange::of(whole) }
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
                Ty::I64 => Ty::U64,
                ty @ (Ty::U32 | Ty::U8 | Ty::U64) => ty,
                _ => self.shared.types.external(),
            },
        }
    }

    fn unknown_method(&mut self, ident: &syn::Ident, name: &str) -> Expr {
        let hint = match name {
            "erf" => "write `math::erf(x)`".to_owned(),
            "log" => "write `x.ln() / base.ln()`, or `log2`, `log10`".to_owned(),
            "ilog2" => "write `31 - x.leading_zeros()` of a positive 32-bit integer".to_owned(),
            "to_degrees" | "to_radians" => "multiply by a constant".to_owned(),
            "filter" | "fold" | "rev" | "step_by" | "take" | "skip" | "any" | "all" | "enumerate" | "chain"
            | "collect" => {
                return self.refused(ident, messages::ITERATOR);
            }
            name if NOT_AVAILABLE.contains(&name) => {
                return self.refused(ident, format!("`{name}` is not available in a hook"));
            }
            "unwrap" | "expect" | "unwrap_or" => "a hook cannot fail, and has no Option".to_owned(),
            "iter" | "into_iter" | "iter_mut" => "write `for i in a..b`".to_owned(),
            "clone" | "to_owned" => "values are copied: leave it out".to_owned(),
            "into" | "try_into" => "write a cast: `x as f32`".to_owned(),
            "len" => "pass the length as a parameter".to_owned(),
            _ => match names::nearest(name, METHODS.iter().map(|m| m.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "the reference lists the methods that a hook has".to_owned(),
            },
        };
        self.refused(ident, format!("`{name}` is not available in a hook: {hint}"))
    }
}
