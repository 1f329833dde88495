//! Expansions: items, descriptors, instances, errors.

use super::*;

#[test]
fn expansion_keeps_the_item_and_adds_the_descriptor() {
    let tokens = expand(
        quote!(name = "cap"),
        quote!(impl AttentionVariant for SoftCap {
            fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 { logit / self.cap }
        }),
    );
    let text = prettyplease::unparse(&syn::parse2(tokens).expect("items"));
    for part in [
        "impl AttentionVariant for SoftCap {",
        "name: \"cap\"",
        "type_name: \"SoftCap\"",
        "hook: ::attn::__private::lang::Hook::LogitsTransform",
        "return logit / cap_;",
        "<::attn::__private::lang::lints::Derived<SoftCap>>::FIELDS",
        "type Normalizer = ::attn::__private::expr::compose::Keeps;",
        "::attn::__private::submit!(SoftCap)",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn default_name_is_the_type_in_snake_case() {
    let tokens = expand(TokenStream::new(), quote!(impl AttentionVariant for my::QKNorm2D {}));
    assert!(tokens.to_string().contains("name : \"qk_norm2_d\""), "{tokens}");
}

#[test]
fn refused_items_are_kept() {
    for item in ["impl AttentionVariant for X { fn wrong (& self) { } }", "struct X ;", "not rust at all"] {
        let text = expand(TokenStream::new(), item.parse().expect("tokens")).to_string();
        assert!(text.starts_with(item), "{text}");
        assert!(text.contains("compile_error"), "{text}");
    }
}

#[test]
fn normaliser_change_is_visible_to_compose() {
    let tokens = expand(
        TokenStream::new(),
        quote!(impl AttentionVariant for X {
            const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };
            fn weight(&self, logit: f32, _m: f32, _at: LogitIndex) -> f32 { logit.max(0.0) }
        }),
    );
    assert!(
        tokens.to_string().contains("type Normalizer = :: attn :: __private :: expr :: compose :: ReplacesPlain"),
        "{tokens}"
    );
}

#[test]
fn generic_variants_list_their_instances() {
    let item = quote!(
        impl<const N: i32, const E: bool> AttentionVariant for Windowed<N, E> {
            fn logits_mask(&self, at: LogitIndex) -> bool {
                at.kv_pos < N * Self::SCALE && E
            }
        }
    );
    let text = expand(quote!(name = "windowed", instances((4, true), (-8, false))), item.clone()).to_string();
    for part in [
        r#"name : "windowed_4_true""#,
        r#"name : "windowed_m8_false""#,
        "const N : i32 = - 8 ;",
        "const E : bool = false ;",
        "for Windowed < N , E >",
        "HookConst :: value (Windowed :: < N , E > :: SCALE)",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let told = |attr: TokenStream, item: TokenStream| {
        let text = expand(attr, item).to_string();
        text.split("compile_error").skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(told(TokenStream::new(), item.clone())[0].contains("lists its instances"));
    assert!(told(quote!(instances(4)), item.clone())[0].contains("2 constant(s)"));
    assert!(told(quote!(instances((4, X))), item)[0].contains("numbers and bools"));
    assert!(told(quote!(instances(4)), quote!(impl AttentionVariant for X {}))[0].contains("only a variant"));
    let generic = "impl<T> AttentionVariant for X<T> {}".parse().expect("tokens");
    assert!(told(quote!(instances(4)), generic)[0].contains("constants only"));
}

#[test]
fn coordinates_that_hooks_read_are_listed() {
    let words = |hook: &str| {
        let item = syn::parse_str(&format!("impl AttentionVariant for X {{ fn {hook} }}")).expect("an impl");
        let variant = read(&TokenStream::new(), &item).unwrap_or_else(|_| panic!("refused"));
        let word = |read: &CoordinateRead| format!("{}{}", read.coordinate, if read.is_index { "[]" } else { "" });
        variant.coordinates.iter().map(word).collect::<Vec<_>>()
    };
    let of_row =
        |name: &str, body: &str| words(&format!("{name}<R: Row>(&self, row: &mut R, at: KvIndex) {{ {body} }}"));
    assert_eq!(of_row("key_transform", "row.map(|_, x| x * at.kv_pos as f32);"), ["kv_pos"]);
    let inside = "row.map(|_, x| if at.kv_len > 3 { x } else { x * at.batch as f32 });";
    assert_eq!(of_row("key_transform", inside), ["batch", "kv_len"]);
    let renamed = "let here = at.kv_token; row.map(|_, x| x * here as f32);";
    assert_eq!(of_row("value_transform", renamed), ["kv_token"]);
    let whole = "let scale = helper(at); row.map(|_, x| x * scale);";
    assert_eq!(of_row("key_transform", whole), ["batch", "kv_head", "kv_len", "kv_pos", "kv_token"]);
    assert_eq!(words("logits_mask(&self, at: LogitIndex) -> bool { at.kv_len > at.row.batch }"), ["batch", "kv_len"]);
    assert_eq!(words("remap_kv_pos(&self, at: KvIndex) -> i32 { at.kv_pos - at.kv_len }"), ["kv_len", "kv_pos"]);
    let mask = |body: &str| words(&format!("logits_mask(&self, at: LogitIndex) -> bool {{ {body} }}"));
    assert_eq!(mask("self.x[[at.batch, at.kv_token]] > at.kv_pos"), ["batch[]", "kv_pos", "kv_token[]"]);
    assert_eq!(mask("self.x[at.batch] > self.x[at.batch + 1]"), ["batch"]);
    // bounds of a mask read what the mask does
    let bounded = "at.kv_pos > 3 } fn kv_range(&self, tile: QueryTile) -> (i32, i32) { (4, tile.kv_len)";
    assert_eq!(mask(bounded), ["kv_pos"]);
}

#[test]
fn helpers_are_generic_over_constants() {
    let text = crate::device_fn::expand(
        TokenStream::new(),
        quote!(
            fn power<const N: i32, const FAST: bool>(x: f32) -> f32 {
                let mut y = 1.0;
                for _ in 0..N {
                    y *= x;
                }
                if FAST { y } else { y + LIMIT }
            }
        ),
    )
    .to_string();
    for part in [
        "template <int N_, bool FAST_> static ATTN_FN float power_fn(float x)",
        "i < N_",
        "FAST_ ? y : y + power_LIMIT_",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let text = transform(&quote!(
        helpers::power::<4, true>(logit) + helpers::power::<{ LIMIT }, FAST>(logit) + power2::<-1>(logit)
    ));
    assert_eq!(
        text,
        "  return power_fn<4, true>(float(logit)) + power_fn<LIMIT_, FAST_>(float(logit)) + \
         power2_fn<-1>(float(logit));"
    );
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            power::<{ 1 + 2 }>(logit)
        }
    ));
    assert!(told.len() == 1 && told[0].contains("helper::<4>"), "{told:?}");
}

#[test]
fn hooks_that_change_nothing_are_left_out() {
    let item = |hooks: &TokenStream| syn::parse2(quote!(impl AttentionVariant for X { #hooks })).expect("an impl");
    let names = |tokens: TokenStream| -> Vec<String> {
        let found = hooks(&item(&tokens)).unwrap_or_else(|report| panic!("{}", report.into_tokens()));
        found.into_iter().map(|hook| hook.name).collect()
    };
    let nothing = names(quote! {
        fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) { q.map(|_d, x| x); }
        fn key_transform<R: Row>(&self, _k: &mut R, _at: KvIndex) {}
        fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) { let _sum = v.sum() * at.kv_pos as f32; }
        fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 { logit }
        fn output_transform<R: Row>(&self, _o: &mut R, _s: RowState, _at: RowIndex) {}
        fn logits_mask(&self, _at: LogitIndex) -> bool { true }
    });
    assert_eq!(nothing, ["logits_mask"]);
    let something = names(quote! {
        fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) { q.map(|d, _x| d as f32); }
        fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) { if at.kv_pos > 3 { k.map(|_d, x| x + 1.0); } }
        fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) { v.rotate_half(8, |d| (1.0, d as f32)); }
        fn logits_transform(&self, _logit: f32, at: LogitIndex) -> f32 { at.kv_pos as f32 }
        fn output_transform<R: Row>(&self, _o: &mut R, s: RowState, at: RowIndex) { self.out.store(at.qo_head, s.lse); }
    });
    assert_eq!(something.len(), 5, "{something:?}");
}
