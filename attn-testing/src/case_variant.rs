//! The variants of cases and expressions, with required tensors filled, and the options of their attentions.

use attn::registry::Registry;
use attn::spec::KernelKind;
use attn::{AttentionOptions, Error, Variant};

use super::{Case, TestError, fill};

/// The variant of a case. Required tensors are filled from its seed.
///
/// # Errors
///
/// An invalid expression, a tensor whose shape cannot be evaluated, or pages that do not fit the list.
pub fn case_variant(case: &Case) -> Result<Variant, TestError> {
    let registry = Registry::global().map_err(Error::from)?;
    let mut variant = Variant::parse_with(&case.variant, &registry).map_err(Error::from)?;
    if let Some(sparse) = &case.sparse {
        sparse.set_lists(&mut variant, case)?;
    }
    let over = variant.over(case.dtypes()?, case.head_dim_vo).map_err(attn::tensor::TensorError::from);
    let (variant, _) = over.map_err(Error::from)?;
    fill::complete(&variant, &case.dims(), case)
}

/// The variant of an expression, with required tensors filled: for tools that look at its kernels, whose text does not
/// depend on tensors.
///
/// # Errors
///
/// As [`case_variant`].
pub fn filled_variant(expr: &str) -> Result<Variant, TestError> {
    case_variant(&Case::new(expr))
}

impl Case {
    /// The options of its attention.
    pub(super) fn attention_options(&self) -> Result<AttentionOptions, TestError> {
        let kernel = match self.kernel.as_str() {
            "auto" => None,
            named => Some(named.parse::<KernelKind>()?),
        };
        let &Case { sm_scale, prefill, decode, head_dim_vo, fixed_split_size, .. } = self;
        let options = AttentionOptions { fixed_split_size, ..AttentionOptions::default() };
        Ok(AttentionOptions { sm_scale, kernel, prefill, decode, head_dim_vo, ..options })
    }
}
