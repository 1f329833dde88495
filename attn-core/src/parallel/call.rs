//! What a rank asks of a group.

use std::fmt;

use crate::dtype::Dtype;

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collective {
    AllGather,
    AllToAll,
    Shift,
    Barrier,
}

/// A call of a rank. Those of all ranks are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) collective: Collective,
    pub(super) dtype: Dtype,
    /// Of the tensor that is sent.
    pub(super) shape: Vec<usize>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.collective {
            Collective::AllGather => "all_gather",
            Collective::AllToAll => "all_to_all",
            Collective::Shift => "shift",
            Collective::Barrier => return f.write_str("barrier"),
        };
        write!(f, "{name} of {} {:?}", self.dtype, self.shape)
    }
}
