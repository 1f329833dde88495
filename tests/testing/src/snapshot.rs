//! Snapshots of the CUDA that a variant becomes.

use attn::Variant;

/// A snapshot test of the CUDA that a variant becomes ([`attn::cuda_source`]), through [insta](https://insta.rs).
///
/// Call it in a `#[test]`. The snapshot is a file of your crate, `snapshots/*.snap` beside the test, named after the
/// test's function; a name of your own comes first. As with any snapshot of insta, the first run writes a `.snap.new`
/// and fails, `cargo insta review` shows and accepts it, and `INSTA_UPDATE=always cargo test` accepts without asking.
/// A later change of a hook, or of the generator, fails the test and shows the difference.
///
/// ```
/// # use attn::prelude::*;
/// /// Called from a `#[test]`.
/// fn snapshots() {
///     attn_testing::cuda_snapshot!(attn::stock::Causal);
///     attn_testing::cuda_snapshot!("capped", compose!(attn::stock::Causal, attn::stock::SoftCap { cap: 30.0 }));
/// }
/// ```
///
/// Parameters are not part of the text: a snapshot of one set of values stands for all. Needs the feature `snapshots`,
/// which is on by default.
#[macro_export]
macro_rules! cuda_snapshot {
    ($name:literal, $variant:expr $(,)?) => {
        $crate::__private::insta::with_settings!({ omit_expression => true }, {
            $crate::__private::insta::assert_snapshot!($name, $crate::cuda_snapshot!(@text $variant));
        })
    };
    (@text $variant:expr) => {
        $crate::__private::cuda_of(&$crate::__private::attn::__private::expr::compose::Tested::into_variant($variant))
    };
    ($variant:expr $(,)?) => {
        $crate::__private::insta::with_settings!({ omit_expression => true }, {
            $crate::__private::insta::assert_snapshot!($crate::cuda_snapshot!(@text $variant));
        })
    };
}

/// The text of a variant, for [`cuda_snapshot!`](crate::cuda_snapshot).
///
/// # Panics
///
/// The variant has no CUDA.
#[must_use]
pub fn cuda_of(variant: &Variant) -> String {
    attn::cuda_source(variant).unwrap_or_else(|error| panic!("{variant} has no CUDA: {error}"))
}

#[cfg(test)]
mod tests {
    use attn::stock::{Causal, SoftCap};

    #[test]
    fn a_single_part() {
        crate::cuda_snapshot!(SoftCap { cap: 30.0 });
    }

    #[test]
    fn a_composition_has_struct_variant() {
        let text = super::cuda_of(&attn::compose!(Causal, SoftCap { cap: 30.0 }));
        assert!(text.contains("struct Causal {") && text.contains("struct Variant {\n  Causal part0;\n"), "{text}");
        assert!(!text.contains("#line") && !text.contains("namespace lang {"), "{text}");
        assert_eq!(text, super::cuda_of(&attn::compose!(Causal, SoftCap { cap: 5.0 })), "values are not in the text");
    }
}
