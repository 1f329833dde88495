//! Collects errors, so that all errors of an item are shown at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The first and the last token of a node: stable Rust cannot join their spans into one.
#[derive(Clone, Copy, Debug)]
pub struct SpanRange {
    first: Span,
    last: Span,
}

impl SpanRange {
    /// The tokens of a node.
    pub fn of(tokens: &impl ToTokens) -> SpanRange {
        let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = spans.next().unwrap_or_else(Span::call_site);
        SpanRange { first, last: spans.last().unwrap_or(first) }
    }
}

impl SpanRange {
    /// The tokens of an expression. Making them all takes the time of all that is inside, at each level of it.
    pub(crate) fn of_expr(e: &syn::Expr) -> SpanRange {
        match (first(e), last(e)) {
            (Some(first), Some(last)) => SpanRange { first, last },
            _ => SpanRange::of(e),
        }
    }

    /// The span of the first token.
    pub fn start(&self) -> Span {
        self.first
    }

    /// From the start of this range to the end of another.
    pub fn to(&self, other: SpanRange) -> SpanRange {
        SpanRange { first: self.first, last: other.last }
    }

    /// The span of the last token.
    pub fn end(&self) -> Span {
        self.last
    }
}

/// The first token of an expression of a common kind.
fn first(e: &syn::Expr) -> Option<Span> {
    match e {
        syn::Expr::Binary(e) if e.attrs.is_empty() => first(&e.left),
        syn::Expr::MethodCall(e) if e.attrs.is_empty() => first(&e.receiver),
        syn::Expr::Call(e) if e.attrs.is_empty() => first(&e.func),
        syn::Expr::Field(e) if e.attrs.is_empty() => first(&e.base),
        syn::Expr::Index(e) if e.attrs.is_empty() => first(&e.expr),
        syn::Expr::Cast(e) if e.attrs.is_empty() => first(&e.expr),
        syn::Expr::Paren(e) if e.attrs.is_empty() => Some(e.paren_token.span.join()),
        syn::Expr::Tuple(e) if e.attrs.is_empty() => Some(e.paren_token.span.join()),
        syn::Expr::Array(e) if e.attrs.is_empty() => Some(e.bracket_token.span.join()),
        syn::Expr::Block(e) if e.attrs.is_empty() && e.label.is_none() => Some(e.block.brace_token.span.join()),
        syn::Expr::If(e) if e.attrs.is_empty() => Some(e.if_token.span),
        syn::Expr::Match(e) if e.attrs.is_empty() => Some(e.match_token.span),
        syn::Expr::Path(e) if e.attrs.is_empty() && e.qself.is_none() && e.path.leading_colon.is_none() => {
            e.path.segments.first().map(|segment| segment.ident.span())
        }
        syn::Expr::Lit(e) if e.attrs.is_empty() => Some(e.lit.span()),
        _ => None,
    }
}

/// The last token of an expression of a common kind.
fn last(e: &syn::Expr) -> Option<Span> {
    match e {
        syn::Expr::Binary(e) => last(&e.right),
        syn::Expr::MethodCall(e) => Some(e.paren_token.span.join()),
        syn::Expr::Call(e) => Some(e.paren_token.span.join()),
        syn::Expr::Index(e) => Some(e.bracket_token.span.join()),
        syn::Expr::Field(e) => match &e.member {
            syn::Member::Named(name) => Some(name.span()),
            syn::Member::Unnamed(_) => None,
        },
        syn::Expr::If(e) => match &e.else_branch {
            Some((_, other)) => last(other),
            None => Some(e.then_branch.brace_token.span.join()),
        },
        syn::Expr::Match(e) => Some(e.brace_token.span.join()),
        syn::Expr::Path(e) => match e.path.segments.last() {
            Some(segment) if segment.arguments.is_none() => Some(segment.ident.span()),
            _ => None,
        },
        syn::Expr::Paren(_) | syn::Expr::Tuple(_) | syn::Expr::Array(_) | syn::Expr::Block(_) | syn::Expr::Lit(_) => {
            first(e)
        }
        _ => None,
    }
}

impl From<Span> for SpanRange {
    fn from(span: Span) -> SpanRange {
        SpanRange { first: span, last: span }
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Report {
    errors: Vec<syn::Error>,
}

impl From<syn::Error> for Report {
    fn from(error: syn::Error) -> Report {
        Report { errors: vec![error] }
    }
}

impl Report {
    /// One error over all tokens of a node.
    pub fn of(tokens: &impl ToTokens, message: impl std::fmt::Display) -> Report {
        syn::Error::new_spanned(tokens, message).into()
    }

    /// Adds an error at a span, or at a node that is lowered already.
    pub fn at(&mut self, range: impl Into<SpanRange>, message: impl std::fmt::Display) {
        let range = range.into();
        let mark = |span| syn::Ident::new("x", span);
        let (first, last) = (mark(range.first), mark(range.last));
        self.errors.push(syn::Error::new_spanned(quote::quote!(#first #last), message));
    }

    /// Adds an error over all tokens of a node.
    pub fn on(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error of a parser.
    pub fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Adds the errors of another report.
    pub fn append(&mut self, other: Report) {
        self.errors.extend(other.errors);
    }

    /// Whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Nothing, if there are no errors.
    pub(crate) fn none(self) -> Result<(), Report> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Each error: where it begins, and what is wrong.
    pub fn errors(self) -> impl Iterator<Item = (Span, String)> {
        self.errors.into_iter().flatten().map(|error| (error.span(), error.to_string()))
    }

    /// One `compile_error!` for each error.
    pub fn into_tokens(self) -> TokenStream {
        self.errors.into_iter().map(syn::Error::into_compile_error).collect()
    }
}
