//! The facts about a variant by which `compose!` refuses what does not go together, as types.

use proc_macro2::TokenStream;
use quote::quote;

/// What a variant does to the normaliser, as far as its text says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NormalizerText {
    /// Softmax.
    #[default]
    Keeps,
    /// Something else, with a running maximum unless a constant of the user's says otherwise.
    Replaces,
    /// `Plain`, written out.
    ReplacesPlain,
}

/// The impls of `Part` and, for what rewrites positions, `MapPart`.
pub(crate) fn parts(ty: &syn::Type, normalizer: NormalizerText, hooks: &[&str]) -> TokenStream {
    let has = |hook: &str| hooks.contains(&hook);
    let changed = match normalizer {
        NormalizerText::Keeps => quote!(Keeps),
        NormalizerText::Replaces => quote!(Replaces),
        NormalizerText::ReplacesPlain => quote!(ReplacesPlain),
    };
    let sink = if has("sink_logit") { quote!(HasSink) } else { quote!(NoSink) };
    let transforms = ["query_transform", "key_transform", "value_transform", "logits_transform"];
    let place = if has("kv_list_len") {
        quote!(Outer)
    } else if normalizer != NormalizerText::Keeps || has("sink_logit") || has("output_transform") {
        quote!(Inner)
    } else if transforms.into_iter().any(has) {
        quote!(Arm)
    } else {
        quote!(Mask)
    };
    let map = (has("remap_qo_pos") || has("remap_kv_pos")).then(|| {
        quote! {
            #[automatically_derived]
            impl ::attn::lang::compose::MapPart for #ty {}
        }
    });
    quote! {
        #[automatically_derived]
        impl ::attn::lang::compose::Part for #ty {
            type Normalizer = ::attn::lang::compose::#changed;
            type Sink = ::attn::lang::compose::#sink;
            type Place = ::attn::lang::compose::#place;
            fn into_variant(self) -> ::attn::expr::Variant {
                ::attn::expr::Variant::from(self)
            }
        }
        #map
    }
}

#[cfg(test)]
mod tests {
    use super::{NormalizerText, parts};

    #[test]
    fn a_place_is_as_strict_as_the_strictest_hook() {
        let place = |normalizer, hooks: &[&str]| {
            let text = parts(&syn::parse_quote!(X), normalizer, hooks).to_string().replace(' ', "");
            let place = text.split("typePlace=::attn::lang::compose::").nth(1).expect("a place");
            place.split(';').next().expect("a name").to_owned()
        };
        assert_eq!(place(NormalizerText::Keeps, &["logits_mask", "kv_range"]), "Mask");
        assert_eq!(place(NormalizerText::Keeps, &["logits_mask", "key_transform"]), "Arm");
        assert_eq!(place(NormalizerText::Keeps, &["sink_logit"]), "Inner");
        assert_eq!(place(NormalizerText::ReplacesPlain, &["weight"]), "Inner");
        assert_eq!(place(NormalizerText::Keeps, &["output_transform", "kv_list_len"]), "Outer");
    }

    #[test]
    fn a_map_rewrites_positions() {
        let is_map =
            |hooks: &[&str]| parts(&syn::parse_quote!(X), NormalizerText::Keeps, hooks).to_string().contains("MapPart");
        assert!(is_map(&["remap_kv_pos"]) && is_map(&["remap_qo_pos"]) && !is_map(&["logits_mask"]));
    }
}
