//! Calls of functions by path.

use super::ir_builder::IrBuilder;
use super::syntax::{self, strip};
use super::{device, method, module};
use crate::ir::{Block, Expr, Kind};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{budget, hook, messages, names};

impl IrBuilder<'_> {
    pub(super) fn call(&mut self, e: &syn::ExprCall) -> Expr {
        let syn::Expr::Path(f) = strip(&e.func) else {
            return self.refused(&e.func, messages::CALL);
        };
        let before = f.path.segments.len().saturating_sub(1);
        if f.qself.is_some() || f.path.segments.iter().take(before).any(|s| !s.arguments.is_empty()) {
            return self.refused(f, messages::CALL);
        }
        if before > 0 && f.path.segments.last().is_some_and(|last| hook::NAMES.iter().any(|hook| last.ident == hook)) {
            return self.refused(e, messages::OTHER_HOOK);
        }
        let two = syntax::last_two(&f.path);
        if let Some(done) = module::call(self, e, f) {
            return done;
        }
        if let Some((ty, name)) = &two {
            if matches!(ty.as_str(), "approx" | "bits" | "random" | "math") {
                return self.of_language(e, f, ty, name);
            }
            if ty == "space" && name == "plain" && e.args.len() == 1 {
                let block = Block { plain: true, ..Block::of(self.expr_as(&e.args[0], &Ty::I32)) };
                return Expr { kind: Kind::Block(block), ty: Ty::I32, span: SpanRange::of(e) };
            }
            if let Some(receiver) = Ty::number(ty) {
                return self.assoc_call(e, f, receiver, name);
            }
            if ty == "Self" {
                return self.refused(f, messages::CALL_SELF);
            }
        }
        let first = f.path.segments.first().map(|s| s.ident.to_string()).unwrap_or_default();
        if matches!(first.as_str(), "std" | "core" | "alloc" | "f64") {
            return self.refused(f, messages::CALL_STD);
        }
        if let Some((ty, _)) = &two
            && matches!(ty.as_str(), "String" | "Vec" | "Box" | "Rc" | "Arc" | "HashMap" | "BTreeMap")
        {
            return self.refused(f, messages::HEAP);
        }
        self.helper(e, f)
    }

    /// `approx::tanh(x)`, `bits::f16_round(x)`, `math::erf(x)`, `random::uniform(seed, stream, i, j)`.
    fn of_language(&mut self, e: &syn::ExprCall, f: &syn::ExprPath, module: &str, name: &str) -> Expr {
        if module == "bits" {
            let Some((text, want, ty)) = bits_function(name).filter(|_| e.args.len() == 1) else {
                return self.refused(f, messages::BITS);
            };
            let args = e.args.iter().map(|a| self.expr_as(a, &want)).collect();
            return Expr { kind: Kind::Call(text, args), ty, span: SpanRange::of(e) };
        }
        let (text, ty) = match (module, name) {
            ("approx", "tanh") => ("approx_tanh", Ty::F32),
            ("approx", "exp") => ("approx_exp", Ty::F32),
            ("approx", "recip") => ("approx_recip", Ty::F32),
            ("approx", "sin_cos") => ("approx_sin_cos", Ty::pair()),
            ("random", "uniform") if e.args.len() == 4 => ("random::uniform", Ty::F32),
            ("random", "bits") if e.args.len() == 4 => ("random::bits", Ty::U32),
            ("math", "erf") if e.args.len() == 1 => ("erf", Ty::F32),
            ("math", _) => return self.refused(f, messages::MATH),
            ("random", _) => return self.refused(f, messages::RANDOM),
            _ => return self.refused(f, messages::APPROX),
        };
        let argument = if module == "random" { Ty::U32 } else { Ty::F32 };
        let args = e.args.iter().map(|a| self.expr_as(a, &argument)).collect();
        Expr { kind: Kind::Call(text, args), ty, span: SpanRange::of(e) }
    }

    /// `f32::max(a, b)`, `f32::from_bits(b)`, `f32::from(b)`.
    fn assoc_call(&mut self, e: &syn::ExprCall, f: &syn::ExprPath, ty: Ty, name: &str) -> Expr {
        let mut args = e.args.iter();
        let Some(first) = args.next() else {
            return self.refused(f, messages::CALL);
        };
        match name {
            "from" if e.args.len() == 1 => {
                let value = self.expr(first);
                Expr { kind: Kind::Cast(Box::new(value), ty.clone()), ty, span: SpanRange::of(e) }
            }
            "from_bits" if ty == Ty::F32 && e.args.len() == 1 => {
                let value = self.expr_as(first, &Ty::U32);
                Expr { kind: Kind::Call("from_bits", vec![value]), ty, span: SpanRange::of(e) }
            }
            _ => {
                let Some(last) = f.path.segments.last() else {
                    return self.error(SpanRange::of(e));
                };
                let receiver = self.expr_as(first, &ty);
                let rest: Vec<&syn::Expr> = args.collect();
                method::number_method(self, e, receiver, &last.ident, &rest)
            }
        }
    }

    fn helper(&mut self, e: &syn::ExprCall, f: &syn::ExprPath) -> Expr {
        let Some(last) = f.path.segments.last() else {
            return self.error(SpanRange::of(e));
        };
        let rust = last.ident.to_string();
        if syntax::is_type_name(&rust) {
            return device::tuple_struct(self, e, f);
        }
        if syntax::last_two(&f.path).is_some_and(|(before, _)| syntax::is_type_name(&before)) {
            return self.refused(f, messages::CALL_SELF);
        }
        if f.path.segments.len() == 1 && self.lookup(&rust).is_some() {
            return self.refused(f, messages::CALL);
        }
        if !budget::spend(self.shared.links.helpers.len() / 8) {
            return self.error(SpanRange::of(e));
        }
        let name = names::helper(&rust);
        let key = syntax::key(&f.path);
        if self.shared.this_fn.as_deref() == Some(&key) {
            return self.refused(f, messages::RECURSION);
        }
        match self.shared.links.helpers.iter().find(|(n, _)| *n == name) {
            Some((_, p)) if syntax::key(p) != key => {
                return self.refused(f, format!("two helpers are called `{rust}`: rename one"));
            }
            Some(_) => {}
            None => {
                let mut path = f.path.clone();
                path.segments.iter_mut().for_each(|s| s.arguments = syn::PathArguments::None);
                self.shared.links.helpers.push((name.clone(), path));
            }
        }
        let consts = match &last.arguments {
            syn::PathArguments::AngleBracketed(a) => a.args.iter().map(|arg| self.const_argument(arg)).collect(),
            _ => Vec::new(),
        };
        let args = e
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                let ty = self.shared.types.named(format!("{key}({i})"));
                self.expr_as(arg, &ty)
            })
            .collect();
        let ty = self.shared.types.named(format!("{key}()"));
        let kind = if consts.is_empty() { Kind::Helper(name, args) } else { Kind::HelperOf(name, consts, args) };
        Expr { kind, ty, span: SpanRange::of(e) }
    }

    /// `4`, `N` or `{ N }` between `::<` and `>`.
    pub(super) fn const_argument(&mut self, arg: &syn::GenericArgument) -> Expr {
        let expr = match arg {
            syn::GenericArgument::Const(syn::Expr::Block(b)) => match &b.block.stmts[..] {
                [syn::Stmt::Expr(e, None)] => e.clone(),
                _ => return self.refused(arg, messages::CONST_ARGUMENT),
            },
            syn::GenericArgument::Const(e) => e.clone(),
            syn::GenericArgument::Type(syn::Type::Path(t)) if t.qself.is_none() => {
                syn::Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: t.path.clone() })
            }
            _ => return self.refused(arg, messages::CONST_ARGUMENT),
        };
        let value = self.expr(&expr);
        let sign = |e: &Expr| matches!(&e.kind, Kind::Neg(inner) if matches!(inner.kind, Kind::Int(_)));
        match value.kind {
            Kind::Int(_) | Kind::Bool(_) | Kind::Const(_) | Kind::Error => value,
            _ if sign(&value) => value,
            _ => self.refused(arg, messages::CONST_ARGUMENT),
        }
    }
}

/// A function of `bits`: its name in the text, its argument and its result.
fn bits_function(name: &str) -> Option<(&'static str, Ty, Ty)> {
    Some(match name {
        "f16_bits" => ("bits::f16_bits", Ty::F32, Ty::U32),
        "f16_value" => ("bits::f16_value", Ty::U32, Ty::F32),
        "f16_round" => ("bits::f16_round", Ty::F32, Ty::F32),
        "bf16_bits" => ("bits::bf16_bits", Ty::F32, Ty::U32),
        "bf16_value" => ("bits::bf16_value", Ty::U32, Ty::F32),
        "bf16_round" => ("bits::bf16_round", Ty::F32, Ty::F32),
        "e4m3_bits" => ("bits::e4m3_bits", Ty::F32, Ty::U32),
        // one instruction where the GPU has it
        "e4m3_value" => ("float_of_e4m3", Ty::U32, Ty::F32),
        "e4m3_round" => ("bits::e4m3_round", Ty::F32, Ty::F32),
        "e2m1_bits" => ("bits::e2m1_bits", Ty::F32, Ty::U32),
        "e2m1_value" => ("bits::e2m1_value", Ty::U32, Ty::F32),
        "e8m0_value" => ("bits::e8m0_value", Ty::U32, Ty::F32),
        "exponent" => ("bits::exponent", Ty::F32, Ty::I32),
        "pow2_ceil" => ("bits::pow2_ceil", Ty::F32, Ty::F32),
        _ => return None,
    })
}
