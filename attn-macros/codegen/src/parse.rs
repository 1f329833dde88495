//! Lowers Rust syntax to [`ir`](crate::ir): enforces the subset, resolves names, and infers the types it can.
//!
//! Errors are reported at their expressions and lowering continues, so that one run finds them all.

mod array;
mod call;
mod context;
mod device;
mod expr;
mod ir_builder;
mod literal;
mod matching;
mod method;
mod module;
mod packed;
mod path;
mod row;
mod stmt;
mod syntax;
mod tensor;
pub mod ty;
mod type_link;

use std::collections::HashMap;

pub use context::{ConstLink, ItemContext, Links, TypeLink};

use crate::ir::{Argument, Function};
use crate::messages;
use crate::names::Taken;
use crate::report::Report;
use crate::types::Ty;
use ir_builder::IrBuilder;

/// Lowers a hook (with `self`) or a helper; `ty_of` gives the types of arguments.
pub(crate) fn function(
    shared: &mut ItemContext,
    attrs: &[syn::Attribute],
    sig: &syn::Signature,
    block: &syn::Block,
    ty_of: impl Fn(usize, &syn::Type, &mut ItemContext) -> Option<Ty>,
) -> Function {
    let ret = match &sig.output {
        syn::ReturnType::Default => Ty::Unit,
        syn::ReturnType::Type(_, ty) => ty::of(ty, shared).unwrap_or_else(|| shared.types.external()),
    };
    let taken = shared_names(shared);
    let mut reader =
        IrBuilder { shared, locals: Vec::new(), scopes: vec![HashMap::new()], taken, returns: vec![ret.clone()] };
    let mut args = Vec::new();
    let typed = sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(arg) => Some(arg),
        syn::FnArg::Receiver(_) => None,
    });
    for (i, arg) in typed.enumerate() {
        let ty = ty_of(i, &arg.ty, reader.shared).unwrap_or_else(|| reader.shared.types.external());
        let local = reader.parameter(&arg.pat, &ty, messages::ARGUMENT);
        let by_reference = matches!(&*arg.ty, syn::Type::Reference(to) if to.mutability.is_none());
        args.push(Argument { local, ty, by_reference });
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

/// The names of the functions around, which locals would hide.
fn shared_names(shared: &ItemContext) -> Taken {
    let mut taken = Taken::default();
    shared.module.iter().flat_map(|module| module.functions.keys()).for_each(|name| taken.take(name));
    taken
}

/// Reports `#[cfg]`: the compiler would remove parts of the Rust, but the text is made before that.
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

/// The texts of doc comments.
pub(crate) fn docs(attrs: &[syn::Attribute]) -> impl Iterator<Item = String> {
    attrs.iter().filter(|a| a.path().is_ident("doc")).filter_map(|a| match &a.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) => Some(text.value()),
        _ => None,
    })
}

/// The lines of a doc comment, without the leading blank.
pub(crate) fn doc_lines(attrs: &[syn::Attribute]) -> Vec<String> {
    docs(attrs)
        .flat_map(|text| text.lines().map(|l| l.strip_prefix(' ').unwrap_or(l).to_owned()).collect::<Vec<_>>())
        .collect()
}

/// The lines of a doc comment, without the Markdown of code and of links.
pub(crate) fn plain_doc_lines(attrs: &[syn::Attribute]) -> Vec<String> {
    let lines = doc_lines(attrs).into_iter();
    lines.map(|line| line.replace("[`", "").replace("`]", "").replace('`', "")).collect()
}
