//! The variants of cases and expressions, with required tensors filled, and the options of their attentions.

use attn::{AttentionOptions, ComputeType, Dtype, Error, HeadDimVo, PrefillBackend, Variant};
use attn_core::registry::Registry;
use attn_core::spec::KernelKind;

use super::{Case, Pool, TestError, fill};

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
    let over = variant.over(case.dtypes()?, case.head_dim_vo).map_err(attn_core::tensor::TensorError::from);
    let (variant, _) = over.map_err(Error::from)?;
    fill::complete(&variant, &case.dims(), case)
}

/// The variant of an expression, with required tensors filled: for tools that look at its kernels, whose text does not
/// depend on tensors.
///
/// # Errors
///
/// An expression that is not one, or a tensor that cannot be filled.
pub fn filled_variant(expr: &str) -> Result<Variant, TestError> {
    case_variant(&Case::new(expr))
}

impl Case {
    /// The case with prefill that computes in e4m3: over keys and values of e4m3, with the head dim that there is.
    /// `None` if it is of another kernel, has shared levels, or a variant that it does not support.
    #[must_use]
    pub fn with_e4m3_compute(&self) -> Option<Case> {
        if !["auto", "prefill"].contains(&self.kernel.as_str()) || !self.levels.is_empty() {
            return None;
        }
        let qo = self.dtype.parse().ok().filter(|&qo| qo != Dtype::F32).unwrap_or(Dtype::Bf16);
        let case = Case {
            // committed results name cases so
            name: Some(format!("{} e4m3 products", self.title())),
            kernel: "prefill".to_owned(),
            prefill: PrefillBackend::Sm90,
            compute_type: ComputeType::E4m3,
            dtype: qo.to_string(),
            kv_dtype: Some(Dtype::E4m3.to_string()),
            head_dim: 128,
            head_dim_vo: HeadDimVo::Same,
            pool: Pool::Split,
            ours_also: Vec::new(),
            ..self.clone()
        };
        let variant = Variant::parse(&case.variant).ok()?;
        let (heads, dtypes) = (case.heads(), case.dtypes().ok()?);
        case.compute_type.check(heads, case.head_dim_vo, dtypes, Some(KernelKind::Prefill), &variant).ok()?;
        Some(case)
    }

    /// The options of its attention.
    pub(super) fn attention_options(&self) -> Result<AttentionOptions, TestError> {
        let kernel = match self.kernel.as_str() {
            "auto" => None,
            named => Some(named.parse::<KernelKind>()?),
        };
        let &Case { sm_scale, prefill, decode, compute_type, head_dim_vo, .. } = self;
        let &Case { fixed_split_size, skip_softmax, .. } = self;
        let options = AttentionOptions { fixed_split_size, skip_softmax, compute_type, ..AttentionOptions::default() };
        Ok(AttentionOptions { sm_scale, kernel, prefill, decode, head_dim_vo, ..options })
    }
}
