//! `variant_test!`: each property of a variant as a test of its own.

/// Makes a module of `#[test]`s for a variant, in one line:
///
/// - `tiles`: the tile classes that are derived from the mask agree with each element, on random batches;
/// - `keys`: `kv_range` leaves out no attended key, and key lists keep their contract;
/// - `weights`: under `MaxScaled`, `weight` and `denominator` scale with the maximum;
/// - `splits`: tiles of other sizes, many KV splits, and merging them in another order change nothing but rounding;
/// - `padding`: NaN in slots without a key changes nothing;
/// - `requests`: hooks give each request of a batch what they give that request alone, so an index of the wrong space
///   (a token of the batch beside a position) is found. They count where the mask attends;
/// - `reference`: the CPU, and a GPU if there is one, agree with the f64 reference.
///
/// A failure names the place and the values. The tests are functions too: see [`properties`](crate::properties).
///
/// ```
/// # use attn::prelude::*;
/// #[derive(Clone, VariantParams)]
/// struct EveryThird;
///
/// #[attention_variant]
/// impl AttentionVariant for EveryThird {
///     fn logits_mask(&self, at: LogitIndex) -> bool {
///         at.kv_pos % 3 == 0
///     }
/// }
///
/// attn_testing::variant_test!(EveryThird);
/// // a second call in the same module takes a name; the variant is any expression
/// attn_testing::variant_test!(third_and_causal: attn::compose!(EveryThird, attn::stock::Causal));
/// ```
///
/// Required tensors that were not given are filled with random values, and where these break a `#[require]` with
/// others: above 0, between 0 and 1, below 0. Where none will do, a closure after the variant makes the elements, in
/// row-major order, of the parameter that it names:
///
/// ```
/// # use attn::prelude::*;
/// #[derive(Clone, VariantParams)]
/// struct Buckets {
///     #[shape(batch, 4)]
///     #[require(edge.values().all(|x| x % 8 == 0))]
///     edge: Tensor2<i32>,
/// }
///
/// #[attention_variant]
/// impl AttentionVariant for Buckets {
///     fn logits_mask(&self, at: LogitIndex) -> bool {
///         at.kv_pos >= self.edge[[at.batch, at.qo_head % 4]]
///     }
/// }
///
/// attn_testing::variant_test!(Buckets { edge: Tensor2::unset() }, edge: |dims, rng| {
///     (0..4 * dims.batch.unwrap_or(0)).map(|_| 8 * rng.below(5) as i32).collect::<Vec<_>>()
/// });
/// ```
///
/// A variant that means the place of a request in its batch, or all packed tokens, says so with `#[batch_wide]`.
/// Instead of `requests` it has the test `batch_wide`: that a request may have other results in another batch.
///
/// ```
/// # use attn::prelude::*;
/// /// Every other request of a batch has half of its logits.
/// #[derive(Clone, VariantParams)]
/// struct EvenRequests;
///
/// #[attention_variant]
/// impl AttentionVariant for EvenRequests {
///     fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
///         if at.batch % 2 == 0 { logit } else { 0.5 * logit }
///     }
/// }
///
/// attn_testing::variant_test!(#[batch_wide] EvenRequests);
/// ```
///
/// Given tensors must fit 8 query heads, 2 KV heads and a head dim of
/// 64.
#[macro_export]
macro_rules! variant_test {
    (#[batch_wide] $name:ident : $variant:expr $(, $param:ident : $make:expr)* $(,)?) => {
        $crate::variant_test!(@module batch_wide, $name: $variant $(, $param: $make)*);
    };
    (#[batch_wide] $variant:expr $(, $param:ident : $make:expr)* $(,)?) => {
        $crate::variant_test!(@module batch_wide, variant_test: $variant $(, $param: $make)*);
    };
    ($name:ident : $variant:expr $(, $param:ident : $make:expr)* $(,)?) => {
        $crate::variant_test!(@module requests, $name: $variant $(, $param: $make)*);
    };
    (@module $of_requests:ident, $name:ident : $variant:expr $(, $param:ident : $make:expr)*) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn variant() -> $crate::__private::attn::Variant {
                $crate::__private::attn::__private::expr::compose::Tested::into_variant($variant)
            }
            fn tested<R>(test: impl FnOnce(&$crate::__private::attn::Variant) -> R) -> R {
                let generators = ::std::vec![$($crate::__private::generator(::core::stringify!($param), $make)),*];
                $crate::__private::with_generators(&variant(), generators, test)
            }
            $crate::variant_test!(@tests tiles keys weights splits padding $of_requests);

            #[test]
            fn reference() {
                if let ::core::result::Result::Err(error) = tested($crate::check_variant) {
                    ::core::panic!("{error}");
                }
            }
        }
    };
    (@tests $($property:ident)*) => {$(
        #[test]
        fn $property() {
            if let ::core::result::Result::Err(error) = tested($crate::properties::$property) {
                ::core::panic!("{error}");
            }
        }
    )*};
    ($variant:expr $(, $param:ident : $make:expr)* $(,)?) => {
        $crate::variant_test!(variant_test: $variant $(, $param: $make)*);
    };
}
