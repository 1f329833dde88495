//! Links to structs and enums with `#[device_type]`.

use super::context::{ItemContext, TypeLink};
use super::syntax;
use crate::{budget, messages, names, types::Ty};

/// The type that a path names; adds the link.
pub(crate) fn link(path: &syn::Path, shared: &mut ItemContext) -> Option<Ty> {
    let last = path.segments.last()?.ident.to_string();
    if path.segments.iter().any(|s| !s.arguments.is_empty()) {
        shared.report.on(path, messages::TYPE);
        return None;
    }
    let name = names::device_type(&last);
    if !budget::spend(shared.links.types.len() / 8) {
        return None;
    }
    match shared.links.types.iter().find(|link| link.name == name) {
        Some(link) if syntax::key(&link.path) != syntax::key(path) => {
            shared.report.on(path, format!("two types are called `{last}`: rename one"));
            return None;
        }
        Some(_) => {}
        None => shared.links.types.push(TypeLink { name: name.clone(), path: path.clone(), compared: None }),
    }
    Some(Ty::Device(name))
}
