//! Tests of expansions; the whole text of stock variants is in `tests/variants/cuda`.

mod control;
mod device_types;
mod evaluated;
mod expansion;
mod logits;
mod names;
mod operators;
mod shared_values;
mod tensors;

use quote::quote;

use super::*;

/// The lines of a hook's body, without the head and `#line`.
fn body(hook: &TokenStream) -> String {
    let item = syn::parse2(quote!(impl AttentionVariant for X { #hook })).expect("an impl");
    let hooks = hooks(&item).unwrap_or_else(|report| panic!("{}", report.into_tokens()));
    let lines: Vec<&str> = hooks[0].cuda.lines().filter(|l| !l.starts_with('#')).collect();
    lines[1..lines.len() - 1].join("\n")
}

fn transform(body_tokens: &TokenStream) -> String {
    body(&quote!(fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body_tokens }))
}

fn mask(body_tokens: &TokenStream) -> String {
    body(&quote!(fn logits_mask(&self, at: LogitIndex) -> bool { #body_tokens }))
}

/// The error messages of an impl.
fn errors(hooks_tokens: &TokenStream) -> Vec<String> {
    let item = syn::parse2(quote!(impl AttentionVariant for X { #hooks_tokens })).expect("an impl");
    match hooks(&item) {
        Ok(_) => Vec::new(),
        Err(report) => {
            let text = report.into_tokens().to_string();
            text.split("compile_error").skip(1).map(str::to_owned).collect()
        }
    }
}
