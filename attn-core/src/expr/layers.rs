//! One plan for several layers: attentions of one structure whose parameters differ.
//!
//! A work list leaves out keys that the mask of its variant hides. Under other parameters (another window, other
//! documents) other keys are visible, and the list is valid for them only if it was built for both. All other
//! parameters (caps, slopes, sinks, the softmax scale) have no effect on the plan.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{StructureError, Variant};

/// Why an attention cannot run as a layer of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The attention and the attention of the plan differ in their parts.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// The layer was not derived from the plan's attention, so it does not share the plan's kernels.
    #[error(
        "the attention was not made from that of the plan by `with_parameters` or `with_sm_scale`; it needs a plan \
         of its own"
    )]
    Unrelated,
    /// Under these parameters other keys are visible, and the plan was not made for them.
    #[error("under these parameters rows see other keys than the plan was made for; plan with it among the `layers`")]
    NotPlanned,
    /// The layer has tensors that are computed from the lengths of each batch.
    #[error("the layer has tensors that are made from the lengths of a batch; give it tensors, or a plan of its own")]
    Lengths,
}

/// The visibility of an attention: which keys its mask leaves. Attentions of equal visibility attend to the same keys
/// of every batch.
#[derive(Clone, Debug)]
pub struct Visibility(Arc<Variant>);

impl PartialEq for Visibility {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The visibilities of attentions that share kernels. Finding the visibility of a variant compares parameters;
/// comparing two visibilities compares pointers.
#[derive(Debug, Default)]
pub struct VisibilityInterner {
    known: Mutex<Vec<Weak<Variant>>>,
}

impl VisibilityInterner {
    /// The visibility of a bound variant. All variants of one interner have one structure.
    #[must_use]
    pub fn of(&self, variant: &Variant) -> Visibility {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|visibility| visibility.strong_count() > 0);
        let mut visibilities = known.iter().filter_map(Weak::upgrade);
        if let Some(same) = visibilities.find(|visibility| visibility.same_visibility(variant)) {
            return Visibility(same);
        }
        let visibility = Arc::new(variant.clone());
        known.push(Arc::downgrade(&visibility));
        Visibility(visibility)
    }
}
