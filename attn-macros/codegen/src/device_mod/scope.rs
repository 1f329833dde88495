//! Reads the signatures of a `#[device_mod]`.

use std::{collections::HashSet, rc::Rc};

use crate::{
    module_scope::{Scope, Signature, Struct, Trait},
    parse::{self, ItemContext},
    report::Report,
    types::Ty,
};

/// Reads the items of a module.
pub(super) fn of(items: &[syn::Item], report: &mut Report) -> Rc<Scope> {
    let items = || items.iter().filter(|item| !is_for_rust(item));
    let mut scope = Scope::default();
    for item in items() {
        match item {
            syn::Item::Use(item) => imports(&item.tree, &mut scope.imports),
            // named before their fields are read, which may name them
            syn::Item::Struct(item) => {
                let generics = type_params(&item.generics).into_iter().map(|(name, _)| name).collect();
                scope.structs.insert(item.ident.to_string(), Struct { generics, fields: Vec::new() });
            }
            _ => {}
        }
    }
    let mut known = Rc::new(scope);
    let mut next = Scope::default();
    for item in items() {
        match item {
            syn::Item::Struct(item) => {
                let mut context = context(&known, &item.generics);
                let fields = item.fields.iter().filter_map(|field| {
                    let ty = parse::ty::of(&field.ty, &mut context)?;
                    Some((field.ident.as_ref()?.to_string(), ty))
                });
                let fields = fields.collect();
                let generics = known.structs[&item.ident.to_string()].generics.clone();
                report.append(context.report);
                next.structs.insert(item.ident.to_string(), Struct { generics, fields });
            }
            syn::Item::Fn(item) => {
                next.functions.insert(item.sig.ident.to_string(), signature(&item.sig, &known, &[], report));
            }
            syn::Item::Const(item) => {
                let mut context = context(&known, &item.generics);
                next.consts.extend(parse::ty::of(&item.ty, &mut context).map(|ty| (item.ident.to_string(), ty)));
                report.append(context.report);
            }
            syn::Item::Trait(item) => {
                next.traits.insert(item.ident.to_string(), read_trait(item, &known, report));
            }
            _ => {}
        }
    }
    if let Some(known) = Rc::get_mut(&mut known) {
        next.imports = std::mem::take(&mut known.imports);
    }
    Rc::new(next)
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

fn signature(sig: &syn::Signature, scope: &Rc<Scope>, outer: &[String], report: &mut Report) -> Signature {
    let mut context = context(scope, &sig.generics);
    context.type_params.extend(outer.iter().map(|name| (name.clone(), String::new())));
    let args = sig.inputs.iter().map(|input| match input {
        syn::FnArg::Receiver(_) => Ty::Param("Self".into()),
        syn::FnArg::Typed(arg) => parse::ty::of(&arg.ty, &mut context).unwrap_or(Ty::Unit),
    });
    let args = args.collect();
    let ret = match &sig.output {
        syn::ReturnType::Default => Ty::Unit,
        syn::ReturnType::Type(_, ty) => parse::ty::of(ty, &mut context).unwrap_or(Ty::Unit),
    };
    let generics = sig.generics.params.iter().filter_map(|param| match param {
        syn::GenericParam::Type(param) => Some(param.ident.to_string()),
        syn::GenericParam::Const(param) => Some(param.ident.to_string()),
        syn::GenericParam::Lifetime(_) => None,
    });
    let generics = generics.collect();
    let types = type_params(&sig.generics).into_iter().map(|(name, _)| name).collect();
    report.append(context.report);
    Signature { generics, types, args, ret }
}

fn read_trait(item: &syn::ItemTrait, scope: &Rc<Scope>, report: &mut Report) -> Trait {
    let mut found = Trait::default();
    let outer = ["Self".to_owned()];
    for entry in &item.items {
        match entry {
            syn::TraitItem::Const(entry) => {
                let mut context = context(scope, &entry.generics);
                context.type_params.push((outer[0].clone(), String::new()));
                found.consts.extend(parse::ty::of(&entry.ty, &mut context).map(|ty| (entry.ident.to_string(), ty)));
                report.append(context.report);
            }
            syn::TraitItem::Fn(entry) => {
                found.functions.insert(entry.sig.ident.to_string(), signature(&entry.sig, scope, &outer, report));
            }
            _ => {}
        }
    }
    found
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
