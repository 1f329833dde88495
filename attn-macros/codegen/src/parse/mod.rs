//! Rust syntax to [`ir`](crate::ir): enforces the subset, resolves names, and infers what types it can.
//!
//! Every refusal goes into the report at its expression, and reading goes on, so that one run finds them all.

mod array;
mod call;
mod device;
mod expr;
pub mod hook;
mod literal;
mod matching;
pub mod method;
mod path;
mod row;
mod stmt;
mod tensor;
pub mod ty;

use std::collections::{HashMap, HashSet};

use crate::{
    ir::{Expr, Function, Kind, Local, LocalId},
    messages, names,
    report::{Range, Report},
    types::{Ty, Types},
};

/// A constant that the text names, by its Rust path.
#[derive(Debug)]
pub struct ConstLink {
    /// Name in the text.
    pub name: String,
    /// Path in Rust.
    pub path: syn::Path,
}

/// What the text links to by path: found once an item, for all of its functions.
#[derive(Debug, Default)]
pub struct Links {
    /// Constants.
    pub consts: Vec<ConstLink>,
    /// Helpers: name in the text, and path.
    pub helpers: Vec<(String, syn::Path)>,
    /// Structs and enums.
    pub types: Vec<TypeLink>,
}

/// A struct or enum that the text names, by its Rust path.
#[derive(Debug)]
pub struct TypeLink {
    /// Name in the text.
    pub name: String,
    /// Path in Rust.
    pub path: syn::Path,
    /// Where its values are first compared.
    pub compared: Option<proc_macro2::Span>,
}

/// What the functions of one item share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Type variables.
    pub types: Types,
    /// Links found.
    pub links: Links,
    /// Errors found.
    pub report: Report,
    /// The function being read, when it is a helper: it may not call itself, and its constants carry its name.
    pub this_fn: Option<String>,
    /// The constants that this helper is generic over: in Rust, in the text, and of which type.
    pub generics: Vec<(String, String, Ty)>,
}

/// Reads one function.
pub(crate) struct Reader<'a> {
    shared: &'a mut Shared,
    locals: Vec<Local>,
    scopes: Vec<HashMap<String, LocalId>>,
    taken: HashSet<String>,
    /// Result types: of the function, and of the closures around.
    returns: Vec<Ty>,
}

/// Reads a hook (with `self`) or a helper; the argument types are given by `ty_of`.
pub(crate) fn function(
    shared: &mut Shared,
    attrs: &[syn::Attribute],
    sig: &syn::Signature,
    block: &syn::Block,
    ty_of: impl Fn(usize, &syn::Type, &mut Shared) -> Option<Ty>,
) -> Function {
    let ret = match &sig.output {
        syn::ReturnType::Default => Ty::Unit,
        syn::ReturnType::Type(_, ty) => ty::of(ty, shared).unwrap_or_else(|| shared.types.outside()),
    };
    let mut reader = Reader {
        shared,
        locals: Vec::new(),
        scopes: vec![HashMap::new()],
        taken: HashSet::new(),
        returns: vec![ret.clone()],
    };
    let mut args = Vec::new();
    let typed = sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(arg) => Some(arg),
        syn::FnArg::Receiver(_) => None,
    });
    for (i, arg) in typed.enumerate() {
        let ty = ty_of(i, &arg.ty, reader.shared).unwrap_or_else(|| reader.shared.types.outside());
        let local = match &*arg.pat {
            syn::Pat::Wild(_) => None,
            syn::Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                Some(reader.declare(&p.ident, ty.clone(), p.mutability.is_some()))
            }
            pat => {
                reader.refuse(pat, messages::ARGUMENT);
                None
            }
        };
        args.push((local, ty));
    }
    refuse_cfg(block, &mut reader.shared.report);
    let body = reader.block(block, &ret);
    Function {
        name: sig.ident.to_string(),
        doc: doc_lines(attrs),
        span: sig.fn_token.span,
        locals: reader.locals,
        args,
        ret,
        body,
    }
}

impl Reader<'_> {
    fn refuse(&mut self, tokens: &impl quote::ToTokens, message: impl std::fmt::Display) {
        self.shared.report.on(tokens, message);
    }

    /// Reports, and stands in for the expression.
    fn refused(&mut self, tokens: &impl quote::ToTokens, message: impl std::fmt::Display) -> Expr {
        self.refuse(tokens, message);
        self.error(Range::of(tokens))
    }

    fn error(&mut self, span: Range) -> Expr {
        Expr { kind: Kind::Error, ty: self.shared.types.outside(), span }
    }

    fn declare(&mut self, ident: &syn::Ident, ty: Ty, mutable: bool) -> LocalId {
        let id = self.temporary(&ident.to_string(), ty, mutable);
        self.bind(ident, id);
        id
    }

    /// A local that the user's code cannot name.
    fn temporary(&mut self, name: &str, ty: Ty, mutable: bool) -> LocalId {
        let name = names::local(name, &mut self.taken);
        self.locals.push(Local { name, ty, mutable });
        self.locals.len() - 1
    }

    fn bind(&mut self, ident: &syn::Ident, id: LocalId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(ident.to_string(), id);
        }
    }

    fn lookup(&self, name: &str) -> Option<LocalId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// A scope of names, which is one of C++ too: what it declared is free again after it.
    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let taken = self.taken.clone();
        let result = f(self);
        self.taken = taken;
        self.scopes.pop();
        result
    }

    /// A scope whose statements the text puts into the scope around: its names stay taken.
    fn flattened<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let first = self.locals.len();
        let result = f(self);
        self.taken.extend(self.locals[first..].iter().map(|local| local.name.clone()));
        result
    }

    fn resolve(&self, ty: &Ty) -> Ty {
        self.shared.types.resolve(ty)
    }

    fn unify(&mut self, a: &Ty, b: &Ty) {
        self.shared.types.unify(a, b);
    }
}

/// The compiler would take parts of the Rust away, and leave the text as it is.
fn refuse_cfg(block: &syn::Block, report: &mut Report) {
    struct Attributes<'a>(&'a mut Report);
    impl<'ast> syn::visit::Visit<'ast> for Attributes<'_> {
        fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
            if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
                self.0.on(attr, messages::CFG_HOOK);
            }
        }
    }
    syn::visit::Visit::visit_block(&mut Attributes(report), block);
}

/// The lines of a doc comment, without the leading blank.
pub(crate) fn doc_lines(attrs: &[syn::Attribute]) -> Vec<String> {
    attrs
        .iter()
        .filter(|a| a.path().is_ident("doc"))
        .filter_map(|a| match &a.meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
                ..
            }) => Some(text.value()),
            _ => None,
        })
        .flat_map(|text| text.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).to_owned()).collect::<Vec<_>>())
        .collect()
}
