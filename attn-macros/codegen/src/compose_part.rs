//! Emits the impl of `compose::Part`: associated types by which `compose!` refuses parts that conflict.

use proc_macro2::TokenStream;
use quote::quote;

/// What a variant does to the normaliser, as far as the expression of `NORMALIZER` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NormalizerChange {
    /// Leaves it softmax.
    #[default]
    Keeps,
    /// Replaces it; with a row max, unless a constant of the user's says otherwise.
    Replaces,
    /// Replaces it with `Plain`, written out.
    ReplacesPlain,
}

/// The impls of `Part` and, for a variant that remaps positions, `MapPart`.
pub(crate) fn part_impl(ty: &syn::Type, normalizer: NormalizerChange, hooks: &[&str]) -> TokenStream {
    let has = |hook: &str| hooks.contains(&hook);
    let changed = match normalizer {
        NormalizerChange::Keeps => quote!(Keeps),
        NormalizerChange::Replaces => quote!(Replaces),
        NormalizerChange::ReplacesPlain => quote!(ReplacesPlain),
    };
    let sink = if has("sink_logit") { quote!(HasSink) } else { quote!(NoSink) };
    let transforms = ["query_transform", "key_transform", "value_transform", "logits_transform"];
    let position = if has("kv_list_len") {
        quote!(Outer)
    } else if normalizer != NormalizerChange::Keeps || has("sink_logit") || has("output_transform") {
        quote!(Nested)
    } else if transforms.into_iter().any(has) {
        quote!(UnionBranch)
    } else {
        quote!(Mask)
    };
    let map = (has("remap_qo_pos") || has("remap_kv_pos")).then(|| {
        quote! {
            #[automatically_derived]
            impl ::attn::__private::expr::compose::MapPart for #ty {}
        }
    });
    quote! {
        #[automatically_derived]
        impl ::attn::__private::expr::compose::Part for #ty {
            type Normalizer = ::attn::__private::expr::compose::#changed;
            type Sink = ::attn::__private::expr::compose::#sink;
            type Position = ::attn::__private::expr::compose::#position;
            fn into_variant(self) -> ::attn::__private::expr::Variant {
                ::attn::__private::expr::Variant::from(self)
            }
        }
        #map
    }
}

#[cfg(test)]
mod tests {
    use super::{NormalizerChange, part_impl};

    #[test]
    fn place_is_that_of_the_strictest_hook() {
        let position = |normalizer, hooks: &[&str]| {
            let text = part_impl(&syn::parse_quote!(X), normalizer, hooks).to_string().replace(' ', "");
            let position = text.split("typePosition=::attn::__private::expr::compose::").nth(1).expect("a position");
            position.split(';').next().expect("a name").to_owned()
        };
        assert_eq!(position(NormalizerChange::Keeps, &["logits_mask", "kv_range"]), "Mask");
        assert_eq!(position(NormalizerChange::Keeps, &["logits_mask", "key_transform"]), "UnionBranch");
        assert_eq!(position(NormalizerChange::Keeps, &["sink_logit"]), "Nested");
        assert_eq!(position(NormalizerChange::ReplacesPlain, &["weight"]), "Nested");
        assert_eq!(position(NormalizerChange::Keeps, &["output_transform", "kv_list_len"]), "Outer");
    }

    #[test]
    fn remapping_hooks_make_a_map() {
        let is_map = |hooks: &[&str]| {
            part_impl(&syn::parse_quote!(X), NormalizerChange::Keeps, hooks).to_string().contains("MapPart")
        };
        assert!(is_map(&["remap_kv_pos"]) && is_map(&["remap_qo_pos"]) && !is_map(&["logits_mask"]));
    }
}
