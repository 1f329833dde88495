//! The type of an impl that an attribute goes on.

/// Its last segment.
pub(crate) fn type_name(item: &syn::ItemImpl) -> Option<String> {
    match without_group(&item.self_ty) {
        syn::Type::Path(t) if t.qself.is_none() => {
            t.path.segments.last().map(|s| s.ident.to_string().trim_start_matches("r#").to_owned())
        }
        _ => None,
    }
}

/// The type without the invisible groups that `macro_rules` puts around its arguments.
pub(crate) fn without_group(ty: &syn::Type) -> &syn::Type {
    match ty {
        syn::Type::Group(t) => without_group(&t.elem),
        syn::Type::Paren(t) => without_group(&t.elem),
        ty => ty,
    }
}

/// Replaces `Self::X` in a path for use outside of the impl.
pub fn without_self(path: &syn::Path, ty: &syn::Type) -> syn::Path {
    let mut path = path.clone();
    let syn::Type::Path(ty) = without_group(ty) else { return path };
    if path.segments.first().is_some_and(|s| s.ident == "Self") {
        let rest = path.segments.iter().skip(1).cloned();
        path.segments = ty.path.segments.iter().cloned().chain(rest).collect();
        // a type in an expression takes a turbofish: `X::<4>::LIMIT`
        for segment in &mut path.segments {
            if let syn::PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
                arguments.colon2_token.get_or_insert_with(Default::default);
            }
        }
        path.leading_colon = ty.path.leading_colon;
    }
    path
}
