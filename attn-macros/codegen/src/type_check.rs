//! Types of numbers and bools, which rustc checks and C++ converts: for Rust text, which no rustc reads.
//!
//! The macros see one item. Here the types of parameters, constants and helpers are known too.

use crate::parse::{self, ItemContext};
use crate::report::Report;
use crate::types::{Known, Ty, Types};
use crate::{budget, device_fn, hook, messages};

/// A type as it is written, if hooks can use it.
pub fn written(ty: &syn::Type) -> Option<Ty> {
    parse::ty::of(ty, &mut ItemContext::default())
}

/// The arguments and the result of a helper, by the names that a call looks up.
pub fn signature(f: &syn::ItemFn) -> impl Iterator<Item = (String, Ty)> {
    let name = &f.sig.ident;
    let result = match &f.sig.output {
        syn::ReturnType::Type(_, ty) => written(ty).map(|ty| (format!("{name}()"), ty)),
        syn::ReturnType::Default => None,
    };
    let args = typed(&f.sig).enumerate();
    let args = args.filter_map(move |(i, arg)| written(&arg.ty).map(|ty| (format!("{name}({i})"), ty)));
    args.chain(result)
}

/// Checks the types of hooks.
///
/// # Errors
/// They contradict each other.
pub fn hooks(item: &syn::ItemImpl, known: Known) -> Result<(), Report> {
    let mut shared = ItemContext { types: Types::checking(known), ..ItemContext::default() };
    for entry in &item.items {
        let syn::ImplItem::Fn(f) = entry else { continue };
        let name = f.sig.ident.to_string();
        if hook::NAMES.contains(&name.as_str()) && budget::spend(1) {
            as_in_the_trait(&name, &f.sig, &mut shared);
            let args = hook::args(&name);
            parse::function(&mut shared, &f.attrs, &f.sig, &f.block, |i, _, _| args.get(i).cloned());
        }
    }
    shared.report.none()
}

/// Checks the types of a helper; [`hooks`] checks those of a variant's hooks.
pub fn helper(f: &syn::ItemFn, known: Known) -> Result<(), Report> {
    let this_fn = Some(f.sig.ident.to_string());
    let mut shared = ItemContext { this_fn, types: Types::checking(known), ..ItemContext::default() };
    device_fn::generics(&f.sig.generics, &mut shared);
    parse::function(&mut shared, &f.attrs, &f.sig, &f.block, |_, ty, shared| parse::ty::of(ty, shared));
    shared.report.none()
}

fn typed(sig: &syn::Signature) -> impl Iterator<Item = &syn::PatType> {
    sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(arg) => Some(arg),
        syn::FnArg::Receiver(_) => None,
    })
}

/// Reports arguments and a result of other types than the trait's.
fn as_in_the_trait(name: &str, sig: &syn::Signature, shared: &mut ItemContext) {
    let args = hook::args(name);
    let count = typed(sig).count();
    if count != args.len() || sig.receiver().is_none() {
        let message = format!("`{name}` takes `&self` and {} more argument(s), as the trait has it", args.len());
        shared.report.on(&sig.inputs, message);
        return;
    }
    for (arg, want) in typed(sig).zip(&args).filter(|(_, want)| !matches!(want, Ty::Row | Ty::RowState)) {
        if let Some(found) = written(&arg.ty).filter(|found| found != want) {
            shared.report.on(&arg.ty, messages::mismatched(&want.name(), &found.name()));
        }
    }
    let Some(want) = hook::result(name) else { return };
    match &sig.output {
        syn::ReturnType::Type(_, ty) => {
            if let Some(found) = written(ty).filter(|found| *found != want) {
                shared.report.on(ty, messages::mismatched(&want.name(), &found.name()));
            }
        }
        syn::ReturnType::Default => {
            let message = format!("`{name}` gives a value of type `{}`", want.name());
            shared.report.on(&sig.ident, message);
        }
    }
}
