//! Reads the tokens that a macro emitted: its errors, and the values of struct literals.

use proc_macro2::{Span, TokenStream};
use syn::{
    Expr, ExprStruct, ImplItemConst, ImplItemFn, Lit, Member, Stmt,
    spanned::Spanned as _,
    visit::{self, Visit},
};

/// What a macro emitted.
pub(crate) struct Expansion {
    pub(crate) file: syn::File,
    /// The messages of `compile_error!`.
    pub(crate) errors: Vec<(Span, String)>,
}

impl Expansion {
    /// Parses what a macro of attn-rs emitted.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Expansion> {
        let file: syn::File = syn::parse2(tokens)?;
        let mut found = Errors::default();
        found.visit_file(&file);
        Ok(Expansion { file, errors: found.0 })
    }

    /// The struct literals of this name, in order.
    pub(crate) fn literals(&self, name: &str) -> Vec<&ExprStruct> {
        let mut found = Literals { name, found: Vec::new() };
        found.visit_file(&self.file);
        found.found
    }

    /// The functions of this name in impls and modules, in order.
    pub(crate) fn bodies(&self, name: &str) -> Vec<&syn::Block> {
        let mut found = Bodies { name, found: Vec::new() };
        found.visit_file(&self.file);
        found.found
    }

    /// The blocks `const _: () = { .. };`, each with what a macro emitted for one instance of a variant.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &syn::Block> {
        self.file.items.iter().filter_map(|item| match item {
            syn::Item::Const(item) if item.ident == "_" => match &*item.expr {
                Expr::Block(block) => Some(&block.block),
                _ => None,
            },
            _ => None,
        })
    }

    /// The associated constant of this name.
    pub(crate) fn associated(&self, name: &str) -> Option<&Expr> {
        let mut found = Associated { name, found: None };
        found.visit_file(&self.file);
        found.found
    }
}

/// The struct literals of this name in a block.
pub(crate) fn literals_in<'a>(block: &'a syn::Block, name: &'a str) -> Vec<&'a ExprStruct> {
    let mut found = Literals { name, found: Vec::new() };
    found.visit_block(block);
    found.found
}

/// The body of the function of this name in a block.
pub(crate) fn body_in<'a>(block: &'a syn::Block, name: &'a str) -> Option<&'a syn::Block> {
    let mut found = Bodies { name, found: Vec::new() };
    found.visit_block(block);
    found.found.first().copied()
}

/// The constants that a block begins with.
pub(crate) fn consts_in(block: &syn::Block) -> impl Iterator<Item = &syn::ItemConst> {
    block.stmts.iter().filter_map(|stmt| match stmt {
        Stmt::Item(syn::Item::Const(item)) if item.ident != "_" => Some(item),
        _ => None,
    })
}

/// The value of a field of a struct literal.
pub(crate) fn field<'a>(literal: &'a ExprStruct, name: &str) -> Option<&'a Expr> {
    let named = |member: &Member| matches!(member, Member::Named(ident) if ident == name);
    literal.fields.iter().find(|field| named(&field.member)).map(|field| &field.expr)
}

/// The text of a field; empty where it is no string.
pub(crate) fn text(literal: &ExprStruct, name: &str) -> String {
    field(literal, name).and_then(string).unwrap_or_default()
}

/// The string of an expression.
pub(crate) fn string(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a field is `true`.
pub(crate) fn is_true(literal: &ExprStruct, name: &str) -> bool {
    matches!(field(literal, name), Some(Expr::Lit(lit)) if matches!(&lit.lit, Lit::Bool(b) if b.value))
}

/// A field that is a small number.
pub(crate) fn number(literal: &ExprStruct, name: &str) -> u8 {
    match field(literal, name) {
        Some(Expr::Lit(lit)) => match &lit.lit {
            Lit::Int(number) => number.base10_parse().unwrap_or(0),
            _ => 0,
        },
        _ => 0,
    }
}

/// The elements of `&[..]`.
pub(crate) fn list<'a>(literal: &'a ExprStruct, name: &str) -> Vec<&'a Expr> {
    match field(literal, name) {
        Some(Expr::Reference(reference)) => match &*reference.expr {
            Expr::Array(array) => array.elems.iter().collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The strings of `&["..", ..]`.
pub(crate) fn strings(literal: &ExprStruct, name: &str) -> Vec<String> {
    list(literal, name).into_iter().filter_map(string).collect()
}

/// The last name of a path.
pub(crate) fn last_name(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

#[derive(Default)]
struct Errors(Vec<(Span, String)>);

impl<'ast> Visit<'ast> for Errors {
    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if last_name(&mac.path) == "compile_error"
            && let Ok(message) = mac.parse_body::<syn::LitStr>()
        {
            self.0.push((mac.path.span(), message.value()));
        }
    }
}

struct Literals<'a, 'n> {
    name: &'n str,
    found: Vec<&'a ExprStruct>,
}

impl<'ast> Visit<'ast> for Literals<'ast, '_> {
    fn visit_expr_struct(&mut self, literal: &'ast ExprStruct) {
        if last_name(&literal.path) == self.name {
            self.found.push(literal);
        }
        visit::visit_expr_struct(self, literal);
    }
}

struct Bodies<'a, 'n> {
    name: &'n str,
    found: Vec<&'a syn::Block>,
}

impl<'ast> Visit<'ast> for Bodies<'ast, '_> {
    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if function.sig.ident == self.name {
            self.found.push(&function.block);
        }
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.sig.ident == self.name {
            self.found.push(&function.block);
        }
        visit::visit_item_fn(self, function);
    }
}

struct Associated<'a, 'n> {
    name: &'n str,
    found: Option<&'a Expr>,
}

impl<'ast> Visit<'ast> for Associated<'ast, '_> {
    fn visit_impl_item_const(&mut self, constant: &'ast ImplItemConst) {
        if constant.ident == self.name {
            self.found = Some(&constant.expr);
        }
    }
}
