//! The size of variants once the helpers that they call are written in their places: a helper that is called twice
//! counts twice, as compilers of CUDA have it.

use std::collections::HashMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Ident, Item, Type};

use crate::budget::{INLINED, NESTED, tokens};
use crate::items::{Helpers, Impls, Types};
use crate::path::last_name;

/// How large a helper or type is with those that it uses, and how many of them are inside each other.
#[derive(Clone, Copy)]
struct Size {
    size: u64,
    levels: usize,
}

/// What the size of an item is made of.
struct Used {
    /// Its own words and signs.
    own: u64,
    /// The helpers or types that it uses, and how often.
    names: Vec<(String, u64)>,
}

/// Helpers, types and variants that are over the budget, and what is wrong.
pub(crate) fn mistakes(helpers: &Helpers, types: &Types, impls: &Impls) -> Vec<(usize, Ident, String)> {
    let mut uses: HashMap<String, Used> = HashMap::new();
    for (name, helper) in helpers {
        uses.insert(name.clone(), used(helpers, &helper.item.1.block.to_token_stream()));
    }
    for (name, ty) in types {
        let names = match &ty.item.1 {
            Item::Struct(item) => item.fields.iter().flat_map(|field| types_of(&field.ty, 1)).collect(),
            _ => Vec::new(),
        };
        uses.insert(name.clone(), Used { own: 1, names });
    }
    let mut sizes = HashMap::new();
    let mut mistakes = Vec::new();
    let functions = helpers.iter().map(|(name, helper)| (name, helper.file, &helper.item.1.sig.ident));
    let structs = types.iter().filter_map(|(name, ty)| match &ty.item.1 {
        Item::Struct(item) => Some((name, ty.file, &item.ident)),
        _ => None,
    });
    for (name, file, ident) in functions.chain(structs) {
        let found = size(name, &uses, &mut sizes);
        // what uses a refused item is too large as well, and not reported
        let is_innermost = uses[name].names.iter().all(|(used, _)| {
            sizes.get(used).copied().flatten().is_none_or(|size: Size| size.size <= INLINED && size.levels < NESTED)
        });
        if is_innermost {
            mistakes.extend(refusal(name, found).map(|message| (file, ident.clone(), message)));
        }
    }
    for variant in impls {
        let used = used(helpers, &variant.item.1.to_token_stream());
        let total = used.names.iter().fold(used.own, |sum, (name, times)| {
            let of_one = sizes.get(name).copied().flatten().filter(|size: &Size| size.size <= INLINED);
            sum.saturating_add(of_one.map_or(0, |size| size.size).saturating_mul(*times))
        });
        if let (true, Type::Path(ty)) = (total > INLINED, &*variant.item.1.self_ty)
            && let Some(last) = ty.path.segments.last()
        {
            mistakes.extend(
                refusal(&last_name(&ty.path), Size { size: total, levels: 0 })
                    .map(|message| (variant.file, last.ident.clone(), message)),
            );
        }
    }
    mistakes
}

/// The tokens of an item, and the helpers that it calls.
fn used(helpers: &Helpers, item: &TokenStream) -> Used {
    let mut names = HashMap::new();
    calls(helpers, item.clone(), &mut names);
    Used { own: tokens(item) as u64, names: names.into_iter().collect() }
}

/// Counts the helpers that are called: their names before brackets.
fn calls(helpers: &Helpers, stream: TokenStream, names: &mut HashMap<String, u64>) {
    let mut before: Option<String> = None;
    for token in stream {
        let called = match &token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
            TokenTree::Punct(punct) => punct.as_char() == ':', // `helper::<4>(x)`
            _ => false,
        };
        if let Some(name) = before.take()
            && called
        {
            *names.entry(name).or_default() += 1;
        }
        match token {
            TokenTree::Ident(name) => {
                before = Some(name.to_string()).filter(|name| helpers.contains_key(name));
            }
            TokenTree::Group(group) => calls(helpers, group.stream(), names),
            _ => {}
        }
    }
}

/// The types that a type is made of, each with how often.
fn types_of(ty: &Type, times: u64) -> Vec<(String, u64)> {
    match ty {
        Type::Array(array) => {
            let len = match &array.len {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) => len.base10_parse().unwrap_or(u64::MAX),
                _ => 1,
            };
            types_of(&array.elem, times.saturating_mul(len))
        }
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(|elem| types_of(elem, times)).collect(),
        Type::Paren(inner) => types_of(&inner.elem, times),
        Type::Group(inner) => types_of(&inner.elem, times),
        Type::Path(path) => vec![(last_name(&path.path), times)],
        _ => Vec::new(),
    }
}

/// The size of a helper or type; nothing where it is inside itself, which is refused elsewhere.
fn size(name: &str, uses: &HashMap<String, Used>, sizes: &mut HashMap<String, Option<Size>>) -> Size {
    if let Some(known) = sizes.get(name) {
        return known.unwrap_or(Size { size: 0, levels: 0 });
    }
    // a type of the language, such as f32
    let Some(used) = uses.get(name) else { return Size { size: 1, levels: 0 } };
    sizes.insert(name.to_owned(), None);
    let mut all = Size { size: used.own, levels: 0 };
    for (name, times) in &used.names {
        let inside = size(name, uses, sizes);
        all.size = all.size.saturating_add(inside.size.saturating_mul(*times));
        all.levels = all.levels.max(inside.levels + 1);
    }
    sizes.insert(name.to_owned(), Some(all));
    all
}

fn refusal(name: &str, found: Size) -> Option<String> {
    let Size { size, levels } = found;
    if size > INLINED {
        return Some(format!(
            "`{name}` has {size} words and signs once what it uses is written in its place, and a text has at most \
             {INLINED} of one variant: call helpers less often, from a loop, or keep their results in variables"
        ));
    }
    (levels >= NESTED).then(|| {
        format!(
            "`{name}` is the last of {} helpers or types inside each other, and a text has at most {NESTED}: write \
             some of them as one",
            levels + 1
        )
    })
}
