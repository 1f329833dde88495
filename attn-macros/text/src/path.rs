//! The names in a path.

/// The last name.
pub(crate) fn last_name(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

/// The last two names: an enum and its variant.
pub(crate) fn enum_and_variant(path: &syn::Path) -> Option<(String, String)> {
    let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (variant, ty) = (names.next()?, names.next()?);
    Some((ty, variant))
}
