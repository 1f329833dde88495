//! Promises as tests.

/// Tests of a variant of one's own, in one line: it makes a module of `#[test]`s.
///
/// - `tiles`: what is derived of whole tiles agrees with the mask of each of their elements, on random batches;
/// - `keys`: `kv_range` leaves out no attended key, and lists are what their hooks promise;
/// - `weights`: under `MaxScaled`, `weight` and `denominator` scale with the maximum;
/// - `splits`: tiles of other sizes, many spans of keys, and merging them in another order change nothing but rounding;
/// - `padding`: NaN where there is no key changes nothing;
/// - `reference`: the CPU, and a GPU where there is one, compute what the f64 reference computes.
///
/// Each fails with where and how. They are functions too: see [`testing::promises`](crate::testing::promises).
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
/// attn::variant_test!(EveryThird);
/// // a second one in the same module takes a name; several parts, or parameters, are an expression
/// attn::variant_test!(third_and_causal: attn::compose!(EveryThird, attn::stock::Causal));
/// ```
///
/// Tensors that the variant must be given, and was not, are made up. Those that it was given must fit 8 query heads, 2 KV heads and a
/// head dim of 64. Needs the feature `testing`, in `[dev-dependencies]`.
#[macro_export]
macro_rules! variant_test {
    ($name:ident : $variant:expr $(,)?) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn variant() -> $crate::Variant {
                $crate::lang::compose::Tested::into_variant($variant)
            }
            $crate::variant_test!(@tests tiles keys weights splits padding);

            #[test]
            fn reference() {
                if let ::core::result::Result::Err(error) = $crate::testing::check_variant(&variant()) {
                    ::core::panic!("{error}");
                }
            }
        }
    };
    (@tests $($promise:ident)*) => {$(
        #[test]
        fn $promise() {
            if let ::core::result::Result::Err(error) = $crate::testing::promises::$promise(&variant()) {
                ::core::panic!("{error}");
            }
        }
    )*};
    ($variant:expr $(,)?) => {
        $crate::variant_test!(variant_test: $variant);
    };
}
