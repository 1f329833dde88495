//! One plan for several layers: attentions of one structure whose parameters differ.
//!
//! A list of work leaves out what the mask of its variant hides. Under other parameters other keys are seen (another window, other documents), and
//! the list holds for them only if it was made for both. Everything else (caps, slopes, sinks, the scale of logits) the planner never looks at.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::expr::Variant;

/// Why an attention cannot run as a layer of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// Other parts than those of the attention whose kernels are to run.
    #[error(
        "the parameters are of another variant: `{got}` stands where the attention has `{want}` (part {part}); only values of parameters may differ"
    )]
    Structure {
        /// Parts before it, counted as [`Variant::parts`] does.
        part: usize,
        /// What the attention has.
        want: String,
        /// What was given.
        got: String,
    },
    /// An attention that does not share the kernels of the plan's.
    #[error(
        "the attention was not made from that of the plan by `with_parameters` or `with_sm_scale`; it needs a plan of its own"
    )]
    Stranger,
    /// Parameters under which other keys are seen than those that the plan was made for.
    #[error("under these parameters rows see other keys than the plan was made for; name the attention to `plan_for`")]
    NotPlanned,
    /// Parameters that are others for each batch.
    #[error("the layer has tensors that are made from the lengths of a batch; give it tensors, or a plan of its own")]
    Lengths,
}

/// What an attention sees of any batch. Equal sights see the same keys.
#[derive(Clone, Debug)]
pub struct Sight(Arc<Variant>);

impl PartialEq for Sight {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The sights of attentions that share kernels: finding one takes a look at parameters, comparing two does not.
#[derive(Debug, Default)]
pub struct Sights {
    known: Mutex<Vec<Weak<Variant>>>,
}

impl Sights {
    /// What a bound variant sees. All that are asked for have one structure.
    #[must_use]
    pub fn of(&self, variant: &Variant) -> Sight {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|sight| sight.strong_count() > 0);
        let mut sights = known.iter().filter_map(Weak::upgrade);
        if let Some(same) = sights.find(|sight| sight.sees_as(variant)) {
            return Sight(same);
        }
        let sight = Arc::new(variant.clone());
        known.push(Arc::downgrade(&sight));
        Sight(sight)
    }
}
