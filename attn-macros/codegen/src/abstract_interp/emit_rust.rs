//! Emits a normal form as Rust over `attn_core::lang::interval`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;

use super::normal_form::{Generic, Id, IntTy, Node, NormalForm, is_uniform_coordinate};
use crate::{helper_module::with_helper, names, parse::Links};

/// Rust paths of the names in the text.
pub(super) struct RustNames<'a> {
    /// Constants and helpers, by path.
    pub links: &'a Links,
    /// Constants that a variant is generic over.
    pub generics: &'a [Generic],
    /// Adapts a path to the scope of the emitted tokens.
    pub fix: &'a dyn Fn(&syn::Path) -> syn::Path,
}

impl RustNames<'_> {
    fn constant(&self, name: &str) -> Option<syn::Path> {
        let generic = self.generics.iter().find(|(_, own, _)| own == name);
        let link = self.links.consts.iter().find(|c| c.name == name);
        generic.map(|(rust, ..)| field(rust).into()).or_else(|| link.map(|link| (self.fix)(&link.path)))
    }
}

/// The body of `fn mask_over(&self, tile: &Tile) -> Tristate`.
pub(super) fn body(form: &NormalForm, names: &RustNames<'_>) -> TokenStream {
    let (lets, value) = parts(form, names);
    quote!(#(#lets)* ::attn::lang::interval::tristate(#value))
}

/// Statements that set the bounds of a coordinate of `to`, from those of `tile`.
pub(super) fn set_coordinate(form: &NormalForm, word: &str, names: &RustNames<'_>) -> TokenStream {
    let (lets, value) = parts(form, names);
    let (min, max) = (format_ident!("{word}_min"), format_ident!("{word}_max"));
    let to = if word == "qo_pos" { quote!(to.rows) } else { quote!(to) };
    quote! {
        (#to.#min, #to.#max) = {
            #(#lets)*
            ::attn::lang::interval::coordinate_bounds(#value)
        };
    }
}

/// `pub fn over(..) -> Val` of a helper.
pub(super) fn helper(form: &NormalForm, args: usize, names: &RustNames<'_>) -> TokenStream {
    let (lets, value) = parts(form, names);
    let args_named = (0..args).map(arg);
    quote! {
        #[allow(dead_code, unused_variables)]
        pub fn over([#(#args_named),*]: [::attn::lang::interval::Val; #args]) -> ::attn::lang::interval::Val {
            #(#lets)*
            #value
        }
    }
}

fn arg(i: usize) -> Ident {
    format_ident!("a{i}")
}

fn field(name: &str) -> Ident {
    names::rust(name, Span::call_site())
}

fn parts(form: &NormalForm, names: &RustNames<'_>) -> (Vec<TokenStream>, TokenStream) {
    let uses = form.uses();
    let short = |node: &Node| matches!(node, Node::Arg(_) | Node::Int(..) | Node::LeastI32 | Node::Bool(_) | Node::Any);
    let mut texts: Vec<TokenStream> = Vec::new();
    let mut lets = Vec::new();
    for (id, node) in form.nodes.iter().enumerate() {
        if uses[id] == 0 {
            texts.push(TokenStream::new());
            continue;
        }
        let text = one(node, &texts, names);
        if uses[id] > 1 && !short(node) {
            let name = format_ident!("v{id}");
            lets.push(quote!(let #name = #text;));
            texts.push(quote!(#name));
        } else {
            texts.push(text);
        }
    }
    let value = texts[form.result].clone();
    (lets, value)
}

fn one(node: &Node, texts: &[TokenStream], names: &RustNames<'_>) -> TokenStream {
    let list = |ids: &[Id]| ids.iter().map(|&id| texts[id].clone()).collect::<Vec<_>>();
    match node {
        Node::Coordinate(word) => {
            let [min, max] = match is_uniform_coordinate(word) {
                true => [format_ident!("{word}"), format_ident!("{word}")],
                false => [format_ident!("{word}_min"), format_ident!("{word}_max")],
            };
            quote!(::attn::lang::interval::coordinate(tile.#min, tile.#max))
        }
        Node::Arg(i) => {
            let name = arg(*i);
            quote!(#name)
        }
        Node::Param(name) => {
            let field = field(name);
            quote!(::attn::lang::interval::of(self.#field))
        }
        Node::Const(name) => match names.constant(name) {
            Some(path) => quote_spanned!(path.span()=> ::attn::lang::interval::of(#path)),
            None => quote!(::attn::lang::interval::Val::Any),
        },
        Node::Variant { ty, rust, .. } => match names.links.types.iter().find(|link| link.name == *ty) {
            Some(link) => {
                let (path, variant) = ((names.fix)(&link.path), field(rust));
                quote_spanned!(link.path.span()=> ::attn::lang::interval::of(#path::#variant as i32))
            }
            None => quote!(::attn::lang::interval::Val::Any),
        },
        Node::Int(n, ty) => {
            let literal = match ty {
                None | Some(IntTy::I32) => proc_macro2::Literal::i32_suffixed(*n as i32),
                Some(IntTy::U32) => proc_macro2::Literal::u32_suffixed(*n as u32),
                Some(IntTy::U8) => proc_macro2::Literal::u8_suffixed(*n as u8),
            };
            quote!(::attn::lang::interval::of(#literal))
        }
        Node::LeastI32 => quote!(::attn::lang::interval::of(i32::MIN)),
        Node::Bool(b) => quote!(::attn::lang::interval::of(#b)),
        Node::Any => quote!(::attn::lang::interval::Val::Any),
        Node::Element(name, ids) => {
            let (field, ids) = (field(name), list(ids));
            quote!(::attn::lang::interval::element(&self.#field, &[#(#ids),*]))
        }
        Node::Helper(name, ids) => match names.links.helpers.iter().find(|(n, _)| n == name) {
            Some((_, path)) => {
                let (path, ids) = ((names.fix)(path), list(ids));
                with_helper(&path, &quote!(__helper::over([#(#ids),*])))
            }
            None => quote!(::attn::lang::interval::Val::Any),
        },
        Node::Op(name, ids) => {
            let (name, ids) = (format_ident!("{name}"), list(ids));
            quote!(::attn::lang::interval::#name(#(#ids),*))
        }
    }
}
