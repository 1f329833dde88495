//! What a `#[device_mod]` shows to its functions: the signatures and types of its items, and traits of its type
//! parameters.

use super::ir_builder::IrBuilder;
use super::syntax::{last_two, strip};
use super::ty;
use crate::ir::{Expr, Kind};
use crate::module_scope::{Signature, Trait};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{emit, messages};

/// A call of a function of the module, or of a type parameter: `T::from_i64(x)`.
pub(super) fn call(builder: &mut IrBuilder<'_>, e: &syn::ExprCall, f: &syn::ExprPath) -> Option<Expr> {
    let module = builder.shared.module.clone()?;
    let last = f.path.segments.last()?;
    let name = last.ident.to_string();
    let args: Vec<&syn::Expr> = e.args.iter().collect();
    if let Some((param, _)) = last_two(&f.path) {
        let signature = trait_of(builder, &param)?.functions.get(&name)?.clone();
        let given = vec![Expr { kind: Kind::Const(param.clone()), ty: Ty::Unit, span: SpanRange::of(f) }];
        let of = |name: &str| (name == "Self").then(|| Ty::Param(param.clone()));
        return Some(called(builder, e, name, given, &signature, &of, args));
    }
    if f.path.segments.len() != 1 {
        return None;
    }
    let signature = module.functions.get(&name)?.clone();
    let mut given = Vec::new();
    let mut types: Vec<(String, Ty)> = Vec::new();
    if let syn::PathArguments::AngleBracketed(turbofish) = &last.arguments {
        for (arg, param) in turbofish.args.iter().zip(&signature.generics) {
            given.push(match arg {
                syn::GenericArgument::Type(named) if signature.types.contains(param) => {
                    let Some(ty) = ty::of(named, builder.shared) else { return Some(builder.error(SpanRange::of(e))) };
                    let text = emit::spelled(&ty, &builder.shared.types).unwrap_or_default();
                    types.push((param.clone(), ty));
                    Expr { kind: Kind::Const(text), ty: Ty::Unit, span: SpanRange::of(named) }
                }
                arg => builder.const_argument(arg),
            });
        }
    }
    for param in &signature.types {
        if !types.iter().any(|(name, _)| name == param) {
            let ty = builder.shared.types.fresh();
            types.push((param.clone(), ty));
        }
    }
    let of = |name: &str| types.iter().find(|(param, _)| param == name).map(|(_, ty)| ty.clone());
    Some(called(builder, e, name, given, &signature, &of, args))
}

fn called(
    builder: &mut IrBuilder<'_>,
    whole: &impl quote::ToTokens,
    name: String,
    given: Vec<Expr>,
    signature: &Signature,
    of: &impl Fn(&str) -> Option<Ty>,
    args: Vec<&syn::Expr>,
) -> Expr {
    let values = args.into_iter().zip(&signature.args).map(|(arg, ty)| builder.expr_as(arg, &ty.substituted(of)));
    let values: Vec<Expr> = values.collect();
    let ty = signature.ret.substituted(of);
    let kind = if given.is_empty() { Kind::Helper(name, values) } else { Kind::HelperOf(name, given, values) };
    Expr { kind, ty, span: SpanRange::of(whole) }
}

/// The parameter and the signature, if `x.to_i64()` calls a function of the trait of its type.
pub(super) fn trait_method(
    builder: &IrBuilder<'_>,
    e: &syn::ExprMethodCall,
    receiver: &Expr,
) -> Option<(String, Signature)> {
    let Ty::Param(param) = builder.resolve(&receiver.ty) else { return None };
    let signature = trait_of(builder, &param)?.functions.get(&e.method.to_string())?.clone();
    Some((param, signature))
}

/// `x.to_i64()`, which is `to_i64(x)` in CUDA.
pub(super) fn trait_call(
    builder: &mut IrBuilder<'_>,
    e: &syn::ExprMethodCall,
    receiver: Expr,
    (param, signature): (String, Signature),
) -> Expr {
    let of = |name: &str| (name == "Self").then(|| Ty::Param(param.clone()));
    let mut values = vec![receiver];
    for (arg, ty) in e.args.iter().zip(signature.args.iter().skip(1)) {
        values.push(builder.expr_as(arg, &ty.substituted(&of)));
    }
    let ty = signature.ret.substituted(&of);
    Expr { kind: Kind::Helper(e.method.to_string(), values), ty, span: SpanRange::of(e) }
}

fn trait_of<'b>(builder: &'b IrBuilder<'_>, param: &str) -> Option<&'b Trait> {
    let (_, of) = builder.shared.type_params.iter().find(|(name, _)| name == param)?;
    builder.shared.module.as_ref()?.traits.get(of)
}

/// `FEW`, and `T::LEAST`, which is `LEAST<T>` in CUDA.
pub(super) fn constant(builder: &mut IrBuilder<'_>, path: &syn::Path) -> Option<Expr> {
    let module = builder.shared.module.clone()?;
    let last = path.segments.last()?.ident.to_string();
    let constant = |text: String, ty| Expr { kind: Kind::Const(text), ty, span: SpanRange::of(path) };
    match last_two(path) {
        None => module.consts.get(&last).map(|ty| constant(last.clone(), ty.clone())),
        Some((param, _)) => {
            let ty = trait_of(builder, &param)?.consts.get(&last)?;
            let of = |name: &str| (name == "Self").then(|| Ty::Param(param.clone()));
            Some(constant(format!("{last}<{param}>"), ty.substituted(&of)))
        }
    }
}

/// `Interval { lo, hi, ..a }`.
pub(super) fn literal(builder: &mut IrBuilder<'_>, e: &syn::ExprStruct) -> Option<Expr> {
    let module = builder.shared.module.clone()?;
    let name = e.path.segments.last()?.ident.to_string();
    let of = module.structs.get(&name)?;
    let args: Vec<Ty> = of.generics.iter().map(|_| builder.shared.types.fresh()).collect();
    let whole = Ty::Struct(name, args.clone());
    let with = |name: &str| of.generics.iter().position(|g| g == name).map(|at| args[at].clone());
    let base = e.rest.as_ref().map(|base| (&**base, builder.expr_as(base, &whole)));
    let mut items = Vec::new();
    for (field, ty) in &of.fields {
        let ty = ty.substituted(&with);
        let given = e.fields.iter().find(|f| matches!(&f.member, syn::Member::Named(name) if name == field));
        items.push(match (given, &base) {
            (Some(given), _) => builder.expr_as(&given.expr, &ty),
            (None, Some((base, Expr { kind: Kind::Local(local), .. }))) if is_name(base) => {
                let of = Expr { kind: Kind::Local(*local), ty: whole.clone(), span: SpanRange::of(base) };
                Expr { kind: Kind::Field(Box::new(of), field.clone()), ty, span: SpanRange::of(base) }
            }
            (None, _) => builder.refused(e, messages::BASE_IS_A_NAME),
        });
    }
    Some(Expr { kind: Kind::Aggregate(items), ty: whole, span: SpanRange::of(e) })
}

/// The type of a field.
pub(super) fn field(builder: &mut IrBuilder<'_>, of: &str, args: &[Ty], field: &syn::Ident) -> Ty {
    let module = builder.shared.module.clone();
    let found = module.as_ref().and_then(|module| module.structs.get(of));
    let with = |name: &str| found?.generics.iter().position(|g| g == name).and_then(|at| args.get(at).cloned());
    match found.and_then(|of| of.fields.iter().find(|(name, _)| field == name)) {
        Some((_, ty)) => ty.substituted(&with),
        None => builder.shared.types.external(),
    }
}

fn is_name(e: &syn::Expr) -> bool {
    matches!(strip(e), syn::Expr::Path(_))
}
