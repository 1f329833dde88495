//! `compose!(A, or(B, C), D { .. })`: expands to a chain of typed parts, so that a conflict is a type error at the part
//! that causes it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{BinOp, Expr, Token};

use crate::{depth, messages};

/// Expands `compose!`.
pub fn expand(input: TokenStream) -> TokenStream {
    if let Err(report) = depth::check(&input) {
        return report.into_tokens();
    }
    let parts = match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(input) {
        Ok(parts) => parts,
        Err(error) => return error.into_compile_error(),
    };
    let start = quote!(::attn::__private::expr::compose::Chain::new());
    let mut chain = start;
    for part in parts.iter().flat_map(items) {
        match value(part) {
            // the call has the part's span, so the compiler reports a conflict there
            Ok(value) => chain = quote_spanned!(part.span()=> #chain.with(#value)),
            Err(error) => return error.into_compile_error(),
        }
    }
    quote!(#chain.finish())
}

/// The items of `a + b + c`, without parentheses around any of them.
fn items(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Binary(sum) if matches!(sum.op, BinOp::Add(_)) => {
            let mut all = items(&sum.left);
            all.extend(items(&sum.right));
            all
        }
        Expr::Paren(group) => items(&group.expr),
        Expr::Group(group) => items(&group.expr),
        other => vec![other],
    }
}

/// Several items joined into one operand.
fn operand(expr: &Expr) -> syn::Result<TokenStream> {
    let mut both: Option<TokenStream> = None;
    for item in items(expr) {
        let one = value(item)?;
        both = Some(match both {
            None => one,
            Some(before) => quote_spanned!(item.span()=> ::attn::__private::expr::compose::and(#before, #one)),
        });
    }
    Ok(both.unwrap_or_default())
}

/// A part, or a combinator of parts.
fn value(expr: &Expr) -> syn::Result<TokenStream> {
    let Some((name, args)) = combinator(expr) else { return Ok(quote!(#expr)) };
    let args: Vec<&Expr> = args.iter().collect();
    let wrong = |message: &str| Err(syn::Error::new(expr.span(), message));
    let path = |name: &str| {
        let name = syn::Ident::new(name, expr.span());
        // the operand's span, so that an error about the whole operand is reported there
        quote_spanned!(expr.span()=> ::attn::__private::expr::compose::#name)
    };
    // the check of each operand has that operand's span
    let operands = |list: &[&Expr], check: &str| -> syn::Result<Vec<TokenStream>> {
        let check = path(check);
        list.iter().map(|one| operand(one).map(|value| quote_spanned!(one.span()=> #check(#value)))).collect()
    };
    match (name.as_str(), args.as_slice()) {
        ("or" | "union", [_, _, ..]) => {
            let (both, check) = if name == "or" { (path("Or"), "a_mask") } else { (path("Union"), "a_union_branch") };
            let list = operands(&args, check)?;
            let all = list.into_iter().reduce(|before, one| quote_spanned!(expr.span()=> #both(#before, #one)));
            Ok(all.unwrap_or_default())
        }
        ("not", [inner]) => {
            let (not, inner) = (path("Not"), operands(&[inner], "a_mask")?);
            Ok(quote_spanned!(expr.span()=> #not(#(#inner)*)))
        }
        ("remap", [map, inner]) => {
            let (remap, map, inner) = (path("Remap"), operands(&[map], "a_map")?, operands(&[inner], "inside")?);
            Ok(quote_spanned!(expr.span()=> #remap(#(#map)*, #(#inner)*)))
        }
        ("per_head", [heads, branches @ ..]) if !branches.is_empty() => {
            let per_head = path("per_head");
            let mut all = quote_spanned!(expr.span()=> #per_head(#heads));
            for branch in branches {
                let one = operand(branch)?;
                all = quote_spanned!(branch.span()=> #all.branch(#one));
            }
            Ok(all)
        }
        ("or" | "union", _) => wrong(messages::COMPOSE_TWO),
        ("not", _) => wrong(messages::COMPOSE_NOT),
        ("remap", _) => wrong(messages::COMPOSE_REMAP),
        _ => wrong(messages::COMPOSE_PER_HEAD),
    }
}

/// The name and the arguments of a combinator.
fn combinator(expr: &Expr) -> Option<(String, &Punctuated<Expr, Token![,]>)> {
    let Expr::Call(call) = expr else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    let name = path.path.get_ident()?.to_string();
    ["or", "not", "remap", "per_head", "union"].contains(&name.as_str()).then_some((name, &call.args))
}

#[cfg(test)]
mod tests {
    use super::expand;
    use proc_macro2::TokenStream;
    use quote::quote;

    fn same(got: TokenStream, want: TokenStream) {
        let words = |text: TokenStream| text.to_string().replace(' ', "");
        assert_eq!(words(expand(got)), words(want).replace("@", "::attn::__private::expr::compose::"));
    }

    #[test]
    fn parts_become_a_chain() {
        same(
            quote!(Causal, SoftCap { cap: 30.0 },),
            quote!(@Chain::new().with(Causal).with(SoftCap { cap: 30.0 }).finish()),
        );
        same(quote!(Causal + (Alibi + Rope)), quote!(@Chain::new().with(Causal).with(Alibi).with(Rope).finish()));
        same(quote!(), quote!(@Chain::new().finish()));
        assert!(expand(quote!(Causal+)).to_string().contains("compile_error"));
    }

    #[test]
    fn combinators_become_types() {
        same(
            quote!(or(A, B + C, not(D))),
            quote!(@Chain::new().with(@Or(@Or(@a_mask(A), @a_mask(@and(B, C))), @a_mask(@Not(@a_mask(D))))).finish()),
        );
        same(quote!(union(A, B)), quote!(@Chain::new().with(@Union(@a_union_branch(A), @a_union_branch(B))).finish()));
        same(quote!(remap(F, A)), quote!(@Chain::new().with(@Remap(@a_map(F), @inside(A))).finish()));
        same(
            quote!(per_head([0, 1], A, B)),
            quote!(@Chain::new().with(@per_head([0, 1]).branch(A).branch(B)).finish()),
        );
        // a function of the user's with the name of a combinator
        same(quote!(my::or(A), make(1)), quote!(@Chain::new().with(my::or(A)).with(make(1)).finish()));
    }

    #[test]
    fn missing_operands_are_reported() {
        for (text, words) in [
            (quote!(or(A)), "two"),
            (quote!(not(A, B)), "one"),
            (quote!(remap(A)), "map"),
            (quote!(per_head([0])), "branch"),
        ] {
            let got = expand(text).to_string();
            assert!(got.contains("compile_error") && got.contains(words), "{got}");
        }
    }
}
