//! Structs and enums with `#[device_type]`, whose definitions are not visible here.

use quote::ToTokens as _;

use super::ir_builder::IrBuilder;
use super::module;
use super::syntax::{is_index, is_type_name, key, last_two, strip};
use super::type_link::link;
use crate::ir::{Block, Expr, Kind, Op, Stmt};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{messages, names};

/// The name of a field in the text.
fn member(member: &syn::Member) -> Option<String> {
    match member {
        syn::Member::Named(name) => Some(names::within_type(&name.to_string())),
        syn::Member::Unnamed(i) => names::TUPLE_FIELDS.get(i.index as usize).map(|&name| name.to_owned()),
    }
}

/// The name of a field as Rust writes it: `slope`, `0`.
fn written(member: &syn::Member) -> String {
    member.to_token_stream().to_string()
}

/// `Line { slope: 1.0, ..base }`.
pub(super) fn struct_literal(builder: &mut IrBuilder<'_>, e: &syn::ExprStruct) -> Expr {
    if let Some(done) = module::literal(builder, e) {
        return done;
    }
    let Some((ty, name)) = struct_named(builder, &e.path, e.qself.is_some(), messages::STRUCT) else {
        for field in &e.fields {
            builder.expr(&field.expr);
        }
        return builder.error(SpanRange::of(e));
    };
    let mut fields = Vec::new();
    for field in &e.fields {
        fields.extend(field_value(builder, &name, &field.member, &field.expr));
    }
    let base = e.rest.as_ref().map(|base| Box::new(builder.expr_as(base, &ty)));
    Expr { kind: Kind::Struct { ty: name, base, fields }, ty, span: SpanRange::of(e) }
}

/// `Line(1.0, 2.0)`.
pub(super) fn tuple_struct(builder: &mut IrBuilder<'_>, e: &syn::ExprCall, f: &syn::ExprPath) -> Expr {
    let Some((ty, name)) = struct_named(builder, &f.path, false, messages::CALL_TYPE) else {
        e.args.iter().for_each(|arg| drop(builder.expr(arg)));
        return builder.error(SpanRange::of(e));
    };
    if e.args.len() > names::TUPLE_FIELDS.len() {
        return builder.refused(e, messages::TUPLE_STRUCT_SIZE);
    }
    let fields = e.args.iter().enumerate();
    let fields = fields.filter_map(|(i, arg)| field_value(builder, &name, &i.into(), arg)).collect();
    Expr { kind: Kind::Struct { ty: name, base: None, fields }, ty, span: SpanRange::of(e) }
}

/// The type of a struct's path, and its name in the text.
fn struct_named(builder: &mut IrBuilder<'_>, path: &syn::Path, qself: bool, refusal: &str) -> Option<(Ty, String)> {
    let first = path.segments.first()?.ident.to_string();
    let variant = last_two(path).is_some_and(|(before, _)| is_type_name(&before));
    let foreign = matches!(first.as_str(), "std" | "core" | "alloc" | "Self")
        || matches!(key(path).as_str(), "Some" | "Ok" | "Err" | "Box");
    if qself || variant || foreign || path.segments.iter().any(|s| !s.arguments.is_empty()) {
        builder.refuse(path, refusal);
        return None;
    }
    match link(path, builder.shared)? {
        Ty::Device(name) => Some((Ty::Device(name.clone()), name)),
        _ => None,
    }
}

fn field_value(
    builder: &mut IrBuilder<'_>,
    ty: &str,
    field: &syn::Member,
    value: &syn::Expr,
) -> Option<(String, Expr)> {
    let want = builder.shared.types.named(format!("{ty}.{}", written(field)));
    let value = builder.expr_as(value, &want);
    // the type of the field's elements comes from the definition, which is not visible here
    if matches!(builder.resolve(&value.ty), Ty::Tuple(_) | Ty::Array(..)) {
        builder.shared.types.make_external(&value.ty);
    }
    match member(field) {
        Some(name) => Some((name, value)),
        None => {
            builder.shared.report.on(field, messages::TUPLE_STRUCT_SIZE);
            None
        }
    }
}

/// `line.slope`.
pub(super) fn struct_field(builder: &mut IrBuilder<'_>, base: Expr, name: &syn::Ident, span: SpanRange) -> Expr {
    let ty = match builder.resolve(&base.ty) {
        Ty::Struct(of, args) => module::field(builder, &of, &args, name),
        Ty::Device(of) => builder.shared.types.named(format!("{of}.{name}")),
        _ => builder.shared.types.external(),
    };
    Expr { kind: Kind::Field(Box::new(base), names::within_type(&name.to_string())), ty, span }
}

/// `Mode::Linear`.
pub(super) fn variant(builder: &mut IrBuilder<'_>, e: &syn::ExprPath, last: &str) -> Expr {
    let mut path = e.path.clone();
    path.segments.pop();
    path.segments.pop_punct();
    if path.is_ident("Self") {
        return builder.refused(e, messages::EXPRESSION);
    }
    let ty = match &builder.shared.module {
        Some(_) => path.segments.last().map(|s| Ty::Device(s.ident.to_string())),
        None => link(&path, builder.shared),
    };
    match ty {
        Some(Ty::Device(ty)) => {
            let kind = Kind::Variant { ty: ty.clone(), name: names::within_type(last), rust: last.to_owned() };
            Expr { kind, ty: Ty::Device(ty), span: SpanRange::of(e) }
        }
        _ => builder.error(SpanRange::of(e)),
    }
}

/// Records that values of a type are compared. Only enums can be compared.
pub(super) fn record_comparison(builder: &mut IrBuilder<'_>, ty: &Ty, at: proc_macro2::Span) {
    if let Ty::Device(name) = builder.resolve(ty)
        && let Some(link) = builder.shared.links.types.iter_mut().find(|link| link.name == name)
    {
        link.compared.get_or_insert(at);
    }
}

/// `line.slope = x`, `lines[i].slope += x`: becomes an assignment of the whole struct.
pub(super) fn assign_field(
    builder: &mut IrBuilder<'_>,
    target: &syn::ExprField,
    op: Option<Op>,
    value: Expr,
) -> Option<Stmt> {
    let whole = builder.expr(&target.base);
    let Ty::Device(ty) = builder.resolve(&whole.ty) else {
        let message = match (&target.member, &whole.kind) {
            (_, Kind::Error) => return Some(Stmt::Expr(value)),
            (_, Kind::Param(_)) => messages::SELF_ASSIGN,
            (syn::Member::Unnamed(_), _) => messages::TUPLE_ASSIGN,
            (_, _) if matches!(builder.resolve(&whole.ty), Ty::Var(_)) => messages::UNSEEN_STRUCT,
            _ => messages::INDEX_ASSIGN,
        };
        builder.refuse(target, message);
        return Some(Stmt::Expr(value));
    };
    let field = builder.shared.types.named(format!("{ty}.{}", written(&target.member)));
    if !matches!(op, Some(Op::Shl | Op::Shr)) {
        builder.unify(&field, &value.ty, value.span);
    }
    let value = match op {
        None => value,
        Some(op) => {
            let now = builder.expr(&syn::Expr::Field(target.clone()));
            let span = now.span.to(value.span);
            Expr { kind: Kind::Binary(op, Box::new(now), Box::new(value)), ty: field, span }
        }
    };
    let Some(name) = member(&target.member) else {
        builder.refuse(target, messages::TUPLE_STRUCT_SIZE);
        return Some(Stmt::Expr(value));
    };
    let span = SpanRange::of(target).to(value.span);
    let kind = Kind::Struct { ty: ty.clone(), base: Some(Box::new(whole)), fields: vec![(name, value)] };
    builder.assign(strip(&target.base), None, Expr { kind, ty: Ty::Device(ty), span })
}

/// `let Line { slope, bias: b, .. } = init`.
pub(super) fn let_struct(builder: &mut IrBuilder<'_>, pat: &syn::PatStruct, ty: &Ty, init: Expr, out: &mut Block) {
    if is_index(&pat.path) {
        builder.refuse(pat, messages::INDEX_PATTERN);
        return pat.fields.iter().for_each(|field| builder.declare_anyway(&field.pat));
    }
    let fields = pat.fields.iter().map(|field| (field.member.clone(), &*field.pat)).collect();
    let_fields(builder, &pat.path, fields, ty, init, out);
}

/// `let Line(a, b) = init`.
pub(super) fn let_tuple_struct(
    builder: &mut IrBuilder<'_>,
    pat: &syn::PatTupleStruct,
    ty: &Ty,
    init: Expr,
    out: &mut Block,
) {
    let rest = pat.elems.iter().position(|p| matches!(p, syn::Pat::Rest(_)));
    let count = pat.elems.len();
    // fields after `..` are counted from the end, which is not visible here
    if rest.is_some_and(|at| at + 1 < count) {
        builder.refuse(pat, messages::PATTERN);
        return pat.elems.iter().for_each(|p| builder.declare_anyway(p));
    }
    let fields = pat.elems.iter().take(rest.unwrap_or(count)).enumerate();
    let fields = fields.map(|(i, pat)| (i.into(), pat)).collect();
    let_fields(builder, &pat.path, fields, ty, init, out);
}

fn let_fields(
    builder: &mut IrBuilder<'_>,
    path: &syn::Path,
    fields: Vec<(syn::Member, &syn::Pat)>,
    ty: &Ty,
    init: Expr,
    out: &mut Block,
) {
    let Some((own, name)) = struct_named(builder, path, false, messages::PATTERN) else {
        return fields.into_iter().for_each(|(_, pat)| builder.declare_anyway(pat));
    };
    builder.unify(ty, &own, SpanRange::of(path));
    let whole = builder.temporary("whole", own.clone(), false);
    let span = init.span;
    out.stmts.push(Stmt::Let { local: whole, init });
    for (field, pat) in fields {
        let base = Expr { kind: Kind::Local(whole), ty: own.clone(), span };
        let ty = builder.shared.types.named(format!("{name}.{}", written(&field)));
        let kind = match &field {
            syn::Member::Named(ident) => Kind::Field(Box::new(base), names::within_type(&ident.to_string())),
            syn::Member::Unnamed(i) => Kind::TupleField(Box::new(base), i.index as usize),
        };
        if !matches!(pat, syn::Pat::Wild(_)) {
            builder.let_pattern(pat, ty.clone(), Expr { kind, ty, span: SpanRange::of(pat) }, out);
        }
    }
}
