//! Reads the signatures of a `#[device_mod]`.

use std::{collections::HashSet, rc::Rc};

use crate::module_scope::{Scope, Signature, Struct, Trait};
use crate::parse::{self, ItemContext};
use crate::report::Report;
use crate::types::Ty;

/// Reads the items of a module.
pub(super) fn of(items: &[syn::Item], report: &mut Report) -> Rc<Scope> {
    let items = || items.iter().filter(|item| !is_for_rust(item));
    let mut named = Scope::default();
    for item in items() {
        match item {
            syn::Item::Use(item) => imports(&item.tree, &mut named.imports),
            // named before their fields are read, which may name them
            syn::Item::Struct(item) => {
                let generics = type_names(&item.generics);
                named.structs.insert(item.ident.to_string(), Struct { generics, fields: Vec::new() });
            }
            _ => {}
        }
    }
    let mut scope = Scope { imports: named.imports.clone(), ..Scope::default() };
    let mut reader = Reader { named: Rc::new(named), report };
    for item in items() {
        match item {
            syn::Item::Struct(item) => {
                let fields = reader.read(&item.generics, &[], |context| {
                    let fields = item.fields.iter().filter_map(|field| {
                        let ty = parse::ty::of(&field.ty, context)?;
                        Some((field.ident.as_ref()?.to_string(), ty))
                    });
                    fields.collect()
                });
                let generics = type_names(&item.generics);
                scope.structs.insert(item.ident.to_string(), Struct { generics, fields });
            }
            syn::Item::Fn(item) => {
                scope.functions.insert(item.sig.ident.to_string(), reader.signature(&item.sig, &[]));
            }
            syn::Item::Const(item) => {
                let ty = reader.read(&item.generics, &[], |context| parse::ty::of(&item.ty, context));
                scope.consts.extend(ty.map(|ty| (item.ident.to_string(), ty)));
            }
            syn::Item::Trait(item) => {
                scope.traits.insert(item.ident.to_string(), reader.items_of(item));
            }
            _ => {}
        }
    }
    Rc::new(scope)
}

/// Whether an item is not in the text.
pub(super) fn is_for_rust(item: &syn::Item) -> bool {
    let attrs = match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        _ => return true,
    };
    attrs.iter().any(|attr| attr.path().is_ident("cfg"))
}

/// A context for one item.
pub(super) fn context(scope: &Rc<Scope>, generics: &syn::Generics) -> ItemContext {
    ItemContext { module: Some(scope.clone()), type_params: type_params(generics), ..ItemContext::default() }
}

/// The type parameters and the first trait of each.
fn type_params(generics: &syn::Generics) -> Vec<(String, String)> {
    let params = generics.type_params().map(|param| {
        let bound = param.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(bound) => bound.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        });
        (param.ident.to_string(), bound.unwrap_or_default())
    });
    params.collect()
}

fn type_names(generics: &syn::Generics) -> Vec<String> {
    generics.type_params().map(|param| param.ident.to_string()).collect()
}

/// Reads types, of which the structs and imports are named.
struct Reader<'a> {
    named: Rc<Scope>,
    report: &'a mut Report,
}

impl Reader<'_> {
    /// Reads in a context with these type parameters, and those around.
    fn read<T>(&mut self, generics: &syn::Generics, outer: &[&str], of: impl FnOnce(&mut ItemContext) -> T) -> T {
        let mut context = context(&self.named, generics);
        context.type_params.extend(outer.iter().map(|&name| (name.to_owned(), String::new())));
        let read = of(&mut context);
        self.report.append(context.report);
        read
    }

    fn signature(&mut self, sig: &syn::Signature, outer: &[&str]) -> Signature {
        let (args, ret) = self.read(&sig.generics, outer, |context| {
            let mut of = |ty: &syn::Type| parse::ty::of(ty, context).unwrap_or(Ty::Unit);
            let args = sig.inputs.iter().map(|input| match input {
                syn::FnArg::Receiver(_) => Ty::Param("Self".into()),
                syn::FnArg::Typed(arg) => of(&arg.ty),
            });
            let args = args.collect();
            let ret = match &sig.output {
                syn::ReturnType::Default => Ty::Unit,
                syn::ReturnType::Type(_, ty) => of(ty),
            };
            (args, ret)
        });
        let generics = sig.generics.params.iter().filter_map(|param| match param {
            syn::GenericParam::Type(param) => Some(param.ident.to_string()),
            syn::GenericParam::Const(param) => Some(param.ident.to_string()),
            syn::GenericParam::Lifetime(_) => None,
        });
        Signature { generics: generics.collect(), types: type_names(&sig.generics), args, ret }
    }

    fn items_of(&mut self, item: &syn::ItemTrait) -> Trait {
        let mut found = Trait::default();
        for entry in &item.items {
            match entry {
                syn::TraitItem::Const(entry) => {
                    let ty = self.read(&entry.generics, &["Self"], |context| parse::ty::of(&entry.ty, context));
                    found.consts.extend(ty.map(|ty| (entry.ident.to_string(), ty)));
                }
                syn::TraitItem::Fn(entry) => {
                    found.functions.insert(entry.sig.ident.to_string(), self.signature(&entry.sig, &["Self"]));
                }
                _ => {}
            }
        }
        found
    }
}

/// The names of a `use`.
fn imports(tree: &syn::UseTree, names: &mut HashSet<String>) {
    match tree {
        syn::UseTree::Path(path) => imports(&path.tree, names),
        syn::UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, names)),
        syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => {}
    }
}
