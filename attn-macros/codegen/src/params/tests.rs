//! Tests of the derive on token streams; the tests of attn-core run what it emits.

use quote::quote;

use super::derive;

/// Messages of the errors in an expansion, in order.
fn errors(expansion: &proc_macro2::TokenStream) -> Vec<String> {
    let text = expansion.to_string();
    let messages = text.split("compile_error ! { \"").skip(1);
    messages.filter_map(|message| message.split("\" }").next()).map(str::to_owned).collect()
}

#[test]
fn all_errors_are_reported_with_a_fallback_impl() {
    let expansion = derive(quote! {
        struct V {
            #[shape(heads)]
            a: Tensor1<f32>,
            b: Tensor2<i32>,
            #[shape(4)]
            c: f32,
            #[default]
            d: f32,
            #[shape(qo_heads, c)]
            e: Tensor2<f32>,
        }
    });
    let errors = errors(&expansion);
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert!(errors.iter().any(|e| e.starts_with("a shape does not know `heads`")));
    assert!(errors.iter().any(|e| e.starts_with("a tensor parameter needs its extents")));
    assert!(errors.iter().any(|e| e.starts_with("only a tensor has a shape")));
    assert!(errors.iter().any(|e| e.starts_with("write `#[default(value)]`")));
    assert!(errors.iter().any(|e| e.starts_with("`c` is no integer")));
    assert!(expansion.to_string().contains("VariantParams for V"));
}

#[test]
fn shapes_match_ranks_and_are_arithmetic() {
    let one = |shape| {
        errors(&derive(quote!(
            struct V {
                #[shape(#shape)]
                t: Tensor1<f32>,
                #[default(1)]
                n: i32,
            }
        )))
    };
    assert_eq!(one(quote!(qo_heads, 2)), ["`Tensor1` has 1 extent, this shape has 2"]);
    assert!(one(quote!(qo_head))[0].contains("did you mean `qo_heads`?"));
    assert!(one(quote!(n << 2))[0].starts_with("a shape is integer arithmetic"));
    assert!(one(quote!(2i32))[0].starts_with("a shape is written in whole numbers"));
    assert!(one(quote!(if n == 0 { head_dim } else { n / 2 })).is_empty());
}

#[test]
fn tensors_have_ranks_from_0_to_4() {
    let one = |ty: proc_macro2::TokenStream, attrs: proc_macro2::TokenStream| {
        errors(&derive(quote!(struct V { #attrs t: #ty })))
    };
    for (ty, shape) in [
        (quote!(Tensor0<f32>), quote!()),
        (quote!(Tensor1<bool>), quote!(#[shape(batch)] #[monotone])),
        (quote!(attn::lang::Tensor<half::f16, 2>), quote!(#[shape(batch, 2)] #[monotone])),
        (quote!(Tensor3<Bits>), quote!(#[shape(1, 2, 3)])),
        (quote!(Tensor4<F8E5M2>), quote!(#[shape(1, 2, 3, 4)])),
        (quote!(OutTensor2), quote!(#[shape(1, 2)])),
        (quote!(OutTensor<4>), quote!(#[shape(1, 2, 3, 4)])),
    ] {
        assert!(one(ty.clone(), shape.clone()).is_empty(), "{shape} {ty}");
    }
    assert_eq!(one(quote!(Tensor0<f32>), quote!(#[shape(1)])), ["`Tensor0` has no extents: leave the shape away"]);
    assert_eq!(one(quote!(OutTensor3), quote!(#[shape(1)])), ["`OutTensor3` has 3 extents, this shape has 1"]);
    assert_eq!(one(quote!(OutTensor1), quote!()), [super::messages::SHAPE_MISSING]);
}

#[test]
fn only_parameter_tensors_are_monotone() {
    let one = |tokens: proc_macro2::TokenStream| errors(&derive(tokens));
    for ty in [quote!(i32), quote!(Tensor0<i32>)] {
        assert_eq!(one(quote!(struct V { #[monotone] x: #ty })), [super::messages::MONOTONE_ON]);
    }
    assert_eq!(
        one(quote!(
            struct V {
                #[monotone]
                #[shape(4)]
                x: OutTensor1,
            }
        )),
        [super::messages::MONOTONE_ON]
    );
    assert_eq!(
        one(quote!(
            struct V {
                #[monotone(yes)]
                #[shape(4)]
                x: Tensor1<i32>,
            }
        )),
        [super::messages::MONOTONE]
    );
    assert_eq!(
        one(quote!(
            struct V {
                #[monotone]
                #[monotone]
                #[shape(4)]
                x: Tensor1<i32>,
            }
        )),
        [super::messages::TWICE]
    );
}

#[test]
fn only_parameter_tensors_are_mutable() {
    use super::messages::{MUTABLE, MUTABLE_MONOTONE, MUTABLE_ON};
    let one = |attrs: proc_macro2::TokenStream, ty: proc_macro2::TokenStream| {
        errors(&derive(quote!(struct V { #attrs x: #ty })))
    };
    assert!(one(quote!(#[mutable]), quote!(Tensor0<i32>)).is_empty());
    assert!(one(quote!(#[mutable] #[shape(4)]), quote!(Tensor1<f32>)).is_empty());
    assert_eq!(one(quote!(#[mutable]), quote!(i32)), [MUTABLE_ON]);
    assert_eq!(one(quote!(#[mutable] #[shape(4)]), quote!(OutTensor1)), [MUTABLE_ON]);
    assert_eq!(one(quote!(#[mutable(yes)]), quote!(Tensor0<i32>)), [MUTABLE]);
    assert_eq!(one(quote!(#[mutable] #[monotone] #[shape(4)]), quote!(Tensor1<i32>)), [MUTABLE_MONOTONE]);
}

#[test]
fn axes_that_grow_with_a_batch_have_room() {
    let growing = |shape: proc_macro2::TokenStream| {
        let text = derive(quote!(
            struct V {
                n: i32,
                #[shape(#shape)]
                t: Tensor2<f32>,
            }
        ))
        .to_string();
        let (_, after) = text.rsplit_once("growing_axes : ").expect("a descriptor");
        after.split("u8").next().expect("a number").to_owned()
    };
    assert_eq!(growing(quote!(batch, n)), "1");
    assert_eq!(growing(quote!(n, 2 * kv_tokens + 1)), "2");
    assert_eq!(growing(quote!((qo_tokens + 7) / 8, kv_tokens - n)), "3");
    assert_eq!(growing(quote!(batch * qo_tokens, head_dim)), "1");
    // smaller for some larger batch
    assert_eq!(growing(quote!(kv_tokens % 2, if batch == 1 { 2 } else { 3 })), "0");
    assert_eq!(growing(quote!(8 / batch, n - qo_tokens)), "0");
    assert_eq!(growing(quote!(kv_tokens / batch, if n == 1 { 2 } else { head_dim })), "0");
}

#[test]
fn only_structs_with_named_fields_are_variants() {
    assert_eq!(
        errors(&derive(quote!(
            enum E {
                A,
            }
        )))[0],
        super::messages::NOT_A_STRUCT
    );
    assert_eq!(
        errors(&derive(quote!(
            struct T(f32);
        )))[0],
        super::messages::UNNAMED
    );
    assert!(
        errors(&derive(quote!(
            struct U;
        )))
        .is_empty()
    );
}

#[test]
fn defaults_for_all_fields_imply_default() {
    let has = |tokens| derive(tokens).to_string().contains("Default for V");
    assert!(has(quote!(
        struct V {
            #[default(1.0)]
            a: f32,
        }
    )));
    assert!(!has(quote!(
        struct V {
            #[default(1.0)]
            a: f32,
            b: f32,
        }
    )));
    assert!(!has(quote!(
        struct V;
    )));
}

#[test]
fn unsupported_types_are_refused() {
    let wrong = |tokens: proc_macro2::TokenStream| errors(&derive(tokens));
    for ty in [quote!(f64), quote!(usize), quote!(&'static str), quote!(String), quote!([f32; 4]), quote!((f32, f32))] {
        assert_eq!(wrong(quote!(struct V { x: #ty })), [super::messages::TYPE], "{ty}");
    }
    for elem in [quote!(f64), quote!(u16), quote!(&'static f32), quote!(Tensor1<f32>)] {
        let ty = quote!(attn::lang::Tensor1<#elem>);
        assert_eq!(wrong(quote!(struct V { #[shape(4)] x: #ty })), [super::messages::TYPE], "{elem}");
    }
    for ty in [
        quote!(u8),
        quote!(f16),
        quote!(Tensor5<f32>),
        quote!(OutTensor0),
        quote!(Tensor<f32, 5>),
        quote!(OutTensor<0>),
    ] {
        assert_eq!(wrong(quote!(struct V { x: #ty })), [super::messages::TYPE], "{ty}");
    }
    // only rustc can resolve an alias
    assert!(
        wrong(quote!(
            struct V {
                x: Width,
            }
        ))
        .is_empty()
    );
}
