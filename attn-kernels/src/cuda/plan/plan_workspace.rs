//! Where a plan lies in a workspace.

use std::{ops::Range, sync::Arc};

use super::sections::Sections;
use crate::cuda::driver::captured::Kept;
use crate::cuda::memory::workspace::{MemoryLock, WorkspaceMemory};
use crate::cuda::{CudaError, CudaStream, CudaWorkspace};

/// The sections of a plan in the memory of a workspace, until another plan is made there.
#[derive(Debug)]
pub(in crate::cuda) struct PlanWorkspace {
    pub(in crate::cuda) sections: Sections,
    memory: Arc<WorkspaceMemory>,
    generation: u64,
}

impl PlanWorkspace {
    /// Uploads the lists of a plan.
    pub(super) fn upload(
        workspace: &mut CudaWorkspace,
        stream: Option<&CudaStream>,
        sections: Sections,
        lists: &[u8],
    ) -> Result<Self, CudaError> {
        let (memory, generation) = workspace.upload_plan(stream, lists, &sections.zeros(), sections.bytes)?;
        Ok(PlanWorkspace { sections, memory, generation })
    }

    /// Allocates staging memory for updates of the lists.
    pub(super) fn reserve_updates(&self) -> Result<(), CudaError> {
        self.memory.reserve_updates(self.sections.lists.total)
    }

    /// Whether the workspace still holds the plan.
    pub(super) fn is_current(&self) -> bool {
        self.memory.generation() == self.generation
    }

    /// Locks the memory for a launch or an update.
    ///
    /// # Errors
    ///
    /// [`CudaError::StalePlan`] if it holds another plan.
    pub(in crate::cuda) fn lock(&self) -> Result<MemoryLock<'_>, CudaError> {
        self.memory.lock_for(self.generation)
    }

    /// What captured launches use.
    pub(super) fn kept(&self) -> Kept {
        self.memory.clone()
    }

    /// The address of a section, an empty one too.
    pub(super) fn start(&self, section: &Range<usize>) -> u64 {
        self.memory.buffer.ptr() + section.start as u64
    }

    /// The address of a section; null if it is empty.
    pub(in crate::cuda) fn address(&self, section: &Range<usize>) -> u64 {
        if section.is_empty() { 0 } else { self.start(section) }
    }

    /// Copies bytes to the host. Waits for all work of the device.
    pub(super) fn download(&self, offset: usize, out: &mut [u8]) -> Result<(), CudaError> {
        self.memory.buffer.download(offset, out)
    }
}
