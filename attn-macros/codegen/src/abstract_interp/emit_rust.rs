//! Emits a normal form as Rust over `attn_core::lang::interval`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;

use super::normal_form::{Id, IntTy, Loop, Node, NormalForm, is_uniform_coordinate};
use crate::{helper_module::with_helper, names, parse::Links};

/// Rust paths of the names in the text.
pub(crate) struct RustNames<'a> {
    /// Constants and helpers, by path.
    pub(crate) links: &'a Links,
    /// Adapts a path to the scope of the emitted tokens.
    pub(crate) fix: &'a dyn Fn(&syn::Path) -> syn::Path,
}

impl RustNames<'_> {
    fn constant(&self, name: &str) -> Option<syn::Path> {
        self.links.consts.iter().find(|c| c.name == name).map(|link| (self.fix)(&link.path))
    }
}

/// The body of `fn mask_over(&self, tile: &Tile) -> Tristate`.
pub(crate) fn body(form: &NormalForm, names: &RustNames<'_>) -> TokenStream {
    let (lets, value) = scalar(form, names);
    quote!(#(#lets)* ::attn::__private::lang::interval::tristate(#value))
}

/// Statements that set the bounds of a coordinate of `to`, from those of `tile`.
pub(crate) fn set_coordinate(form: &NormalForm, word: &str, names: &RustNames<'_>) -> TokenStream {
    let (lets, value) = scalar(form, names);
    let (min, max) = (format_ident!("{word}_min"), format_ident!("{word}_max"));
    let to = if word == "qo_pos" { quote!(to.rows) } else { quote!(to) };
    quote! {
        (#to.#min, #to.#max) = {
            #(#lets)*
            ::attn::__private::lang::interval::coordinate_bounds(#value)
        };
    }
}

/// `over` and `parts` of a helper: over scalars, and over values with parts. One calls the other.
pub(crate) fn helper(form: &NormalForm, names: &RustNames<'_>) -> TokenStream {
    let interval = quote!(::attn::__private::lang::interval);
    let (lets, value) = parts(form, names);
    let args = form.compound.len();
    let named: Vec<_> = (0..args).map(arg).collect();
    let (over, parts) = if form.is_scalar() {
        let body = quote!(#(#lets)* #value);
        (body, quote!(#interval::single(over([#(#interval::one(&#named)),*]))))
    } else {
        let value =
            if form.has_parts(form.result) { value } else { quote!(::attn::__private::lang::interval::single(#value)) };
        let scalars = (0..args).filter(|&i| !form.compound[i]).map(arg);
        let body = quote!(#(let #scalars = ::attn::__private::lang::interval::one(&#scalars);)* #(#lets)* #value);
        (quote!(#interval::one(&parts([#(#interval::single(#named)),*]))), body)
    };
    quote! {
        #[allow(dead_code, unused_variables)]
        pub fn over([#(#named),*]: [#interval::Val; #args]) -> #interval::Val {
            #over
        }
        #[allow(dead_code, unused_variables)]
        pub fn parts([#(#named),*]: [#interval::Parts; #args]) -> #interval::Parts {
            #parts
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
    let texts = vec![TokenStream::new(); form.nodes.len()];
    let uses = form.uses();
    let mut writer = Writer { form, names, far: form.far(&uses), uses, inside: form.inside(), texts };
    let lets = writer.step(None);
    (lets, writer.texts.swap_remove(form.result))
}

/// The variables, and the result as a scalar.
fn scalar(form: &NormalForm, names: &RustNames<'_>) -> (Vec<TokenStream>, TokenStream) {
    let (lets, value) = parts(form, names);
    let one = quote!(::attn::__private::lang::interval::one(&#value));
    (lets, if form.has_parts(form.result) { one } else { value })
}

struct Writer<'a> {
    form: &'a NormalForm,
    names: &'a RustNames<'a>,
    uses: Vec<usize>,
    far: Vec<bool>,
    inside: Vec<Option<usize>>,
    texts: Vec<TokenStream>,
}

impl Writer<'_> {
    /// The variables of the nodes that are computed at a step: in a step of a loop, or in none.
    fn step(&mut self, step: Option<usize>) -> Vec<TokenStream> {
        let mut lets = Vec::new();
        for (id, node) in self.form.nodes.iter().enumerate() {
            if self.uses[id] == 0 || self.inside[id] != step {
                continue;
            }
            let (text, named) = match node {
                Node::Arg(_) | Node::Int(..) | Node::LeastI32 | Node::Bool(_) | Node::Any => (self.one(node), false),
                Node::LoopVar(_) | Node::LoopState(..) => (self.one(node), false),
                Node::Loop(it) => (self.repeated(it), true),
                _ => (self.one(node), self.uses[id] > 1 || self.far[id]),
            };
            self.texts[id] = text;
            if named {
                let (name, text) = (format_ident!("v{id}"), &self.texts[id]);
                lets.push(quote!(let #name = #text;));
                // values with parts are not copied
                let copy = self.form.has_parts(id);
                self.texts[id] = if copy { quote!(#name.clone()) } else { quote!(#name) };
            }
        }
        lets
    }

    /// The text of a node as a scalar.
    fn scalar(&self, id: Id) -> TokenStream {
        let text = &self.texts[id];
        if self.form.has_parts(id) { quote!(::attn::__private::lang::interval::one(&#text)) } else { quote!(#text) }
    }

    /// The text of a node as a value that may have parts.
    fn whole(&self, id: Id) -> TokenStream {
        let text = &self.texts[id];
        if self.form.has_parts(id) { quote!(#text) } else { quote!(::attn::__private::lang::interval::single(#text)) }
    }

    fn repeated(&mut self, it: &Loop) -> TokenStream {
        let body = self.step(Some(it.number));
        let typed = |ids: &[Id]| -> Vec<TokenStream> {
            let typed = it.types.iter().zip(ids).map(|(ty, &id)| {
                let (ty, value) = (format_ident!("{}", ty.name()), self.scalar(id));
                quote!(::attn::__private::lang::interval::#ty(#value))
            });
            typed.collect()
        };
        let (before, after) = (typed(it.before()), typed(it.after()));
        let (from, to, inclusive) = (self.scalar(it.ids[0]), self.scalar(it.ids[1]), it.inclusive);
        let i = format_ident!("i{}", it.number);
        let states = (0..it.types.len()).map(|k| state(it.number, k));
        quote! {
            ::attn::__private::lang::interval::repeated(#from, #to, #inclusive, [#(#before),*], |#i, [#(#states),*]| {
                #(#body)*
                [#(#after),*]
            })
        }
    }

    fn one(&self, node: &Node) -> TokenStream {
        let names = self.names;
        let list = |ids: &[Id]| ids.iter().map(|&id| self.scalar(id)).collect::<Vec<_>>();
        match node {
            Node::Coordinate(word) => {
                let [min, max] = match is_uniform_coordinate(word) {
                    true => [format_ident!("{word}"), format_ident!("{word}")],
                    false => [format_ident!("{word}_min"), format_ident!("{word}_max")],
                };
                quote!(::attn::__private::lang::interval::coordinate(tile.#min, tile.#max))
            }
            Node::Arg(i) => {
                let name = arg(*i);
                if self.form.compound.get(*i) == Some(&true) { quote!(#name.clone()) } else { quote!(#name) }
            }
            Node::Param(name) => {
                let field = field(name);
                quote!(::attn::__private::lang::interval::of(self.#field))
            }
            Node::Const(name) => match names.constant(name) {
                Some(path) => quote_spanned!(path.span()=> ::attn::__private::lang::interval::of(#path)),
                None => quote!(::attn::__private::lang::interval::Val::Any),
            },
            Node::WideConst(name) => match names.constant(name) {
                Some(path) => quote_spanned!(path.span()=> ::attn::__private::lang::interval::wide(#path)),
                None => quote!(::attn::__private::lang::interval::Val::Any),
            },
            Node::Variant { ty, rust, .. } => match names.links.types.iter().find(|link| link.name == *ty) {
                Some(link) => {
                    let (path, variant) = ((names.fix)(&link.path), field(rust));
                    quote_spanned!(link.path.span()=> ::attn::__private::lang::interval::of(#path::#variant as i32))
                }
                None => quote!(::attn::__private::lang::interval::Val::Any),
            },
            Node::Int(n, ty) => {
                let literal = match ty {
                    None | Some(IntTy::I32) => proc_macro2::Literal::i32_suffixed(*n as i32),
                    Some(IntTy::U32) => proc_macro2::Literal::u32_suffixed(*n as u32),
                    Some(IntTy::U8) => proc_macro2::Literal::u8_suffixed(*n as u8),
                    Some(IntTy::U64) => proc_macro2::Literal::u64_suffixed(*n),
                    Some(IntTy::I64) => proc_macro2::Literal::i64_suffixed(*n as i64),
                };
                match ty {
                    Some(IntTy::U64 | IntTy::I64) => quote!(::attn::__private::lang::interval::wide(#literal)),
                    _ => quote!(::attn::__private::lang::interval::of(#literal)),
                }
            }
            Node::LeastI32 => quote!(::attn::__private::lang::interval::of(i32::MIN)),
            Node::Bool(b) => quote!(::attn::__private::lang::interval::of(#b)),
            Node::Any => quote!(::attn::__private::lang::interval::Val::Any),
            Node::Element(name, ids) => {
                let (field, ids) = (field(name), list(ids));
                quote!(::attn::__private::lang::interval::element(&self.#field, &[#(#ids),*]))
            }
            Node::Helper(name, ids) => match names.links.helpers.iter().find(|(n, _)| n == name) {
                Some((_, path)) => {
                    let (path, ids) = ((names.fix)(path), list(ids));
                    with_helper(&path, &quote!(__helper::over([#(#ids),*])))
                }
                None => quote!(::attn::__private::lang::interval::Val::Any),
            },
            Node::Call(name, ids) => match names.links.helpers.iter().find(|(n, _)| n == name) {
                Some((_, path)) => {
                    let (path, ids) = ((names.fix)(path), ids.iter().map(|&id| self.whole(id)));
                    with_helper(&path, &quote!(__helper::parts([#(#ids),*])))
                }
                None => quote!(::attn::__private::lang::interval::single(::attn::__private::lang::interval::Val::Any)),
            },
            Node::Tile => quote!(::attn::__private::lang::interval::tile(tile)),
            Node::CoordinateOf(i, word) => {
                let name = arg(*i);
                quote!(::attn::__private::lang::interval::one(&::attn::__private::lang::interval::part(&#name, #word)))
            }
            Node::Many(parts, ids) => {
                let ids = ids.iter().map(|&id| self.whole(id));
                quote!(::attn::__private::lang::interval::many([#((#parts, #ids)),*]))
            }
            Node::Part(id, name) => {
                let of = self.whole(*id);
                quote!(::attn::__private::lang::interval::part(&#of, #name))
            }
            Node::LoopVar(number) => {
                let name = format_ident!("i{number}");
                quote!(#name)
            }
            Node::LoopState(number, k) => {
                let name = state(*number, *k);
                quote!(#name)
            }
            Node::Loop(_) => TokenStream::new(),
            Node::LoopOut(id, k) => {
                let (of, k) = (&self.texts[*id], proc_macro2::Literal::usize_unsuffixed(*k));
                quote!(#of[#k])
            }
            Node::Op(function, ids) => {
                let (name, ids) = (format_ident!("{}", function.name()), list(ids));
                quote!(::attn::__private::lang::interval::#name(#(#ids),*))
            }
        }
    }
}

fn state(number: usize, k: usize) -> Ident {
    format_ident!("s{number}_{k}")
}
