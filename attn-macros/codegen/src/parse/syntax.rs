//! Helpers for Rust syntax trees.

/// The expression without parentheses.
pub(super) fn strip(expr: &syn::Expr) -> &syn::Expr {
    match expr {
        syn::Expr::Paren(e) => strip(&e.expr),
        syn::Expr::Group(e) => strip(&e.expr),
        expr => expr,
    }
}

/// Whether it is `self`.
pub(super) fn is_self(expr: &syn::Expr) -> bool {
    matches!(strip(expr), syn::Expr::Path(p) if p.path.is_ident("self"))
}

/// Whether a name has the case of types and of enum variants.
pub(super) fn is_type_name(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

/// A path as text, for comparisons.
pub(super) fn key(path: &syn::Path) -> String {
    path.segments.iter().map(|s| s.ident.to_string()).collect::<Vec<_>>().join("::")
}

pub(super) fn last_two(path: &syn::Path) -> Option<(String, String)> {
    let mut last = path.segments.iter().rev();
    let (b, a) = (last.next()?, last.next()?);
    Some((a.ident.to_string(), b.ident.to_string()))
}

/// Whether it is `ty::name`.
pub(super) fn is_assoc(path: &syn::Path, ty: &str, name: &str) -> bool {
    last_two(path).is_some_and(|(a, b)| a == ty && b == name)
}

/// Whether a path names an index or another argument of hooks.
pub(super) fn is_index(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|last| {
        ["LogitIndex", "RowIndex", "KvIndex", "RowState", "QueryTile"].iter().any(|index| last.ident == index)
    })
}
