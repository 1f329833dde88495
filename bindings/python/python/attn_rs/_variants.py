"""Variants as Rust text."""

from typing import Any

from . import _native
from ._attention import forget_plans


def variant(rust: str, file: str = "variant.rs") -> Any:
    """Registers the variants of Rust text, so that expressions can name them. Returns their names.

    rust: what a source file would have: structs with `#[derive(VariantParams)]`, impls with `#[attention_variant]`,
        `#[device_fn]`s, `#[device_type]`s and constants.
    file: the name that errors and `#line` directives give the text.

    No rustc runs: the macros of attn-rs do, and kernels are compiled when they are first needed. Such a variant runs
    on CUDA devices alone. A changed text takes the place of its variants; plans that were made before keep theirs.

    Raises InvalidVariant for a mistake, with its line and column in the text, and for the name of a stock variant.

        attn_rs.variant('''
            use attn::prelude::*;

            /// Keys within a distance.
            #[derive(Clone, VariantParams)]
            struct Near { distance: i32 }

            #[attention_variant]
            impl AttentionVariant for Near {
                fn logits_mask(&self, at: LogitIndex) -> bool {
                    (at.qo_pos - at.kv_pos).abs() <= self.distance
                }
            }
        ''')
        o = attn_rs.attention(q, k, v, "causal + near(distance=100)")
    """
    names = _native.variant(rust, file)
    forget_plans()
    return names
