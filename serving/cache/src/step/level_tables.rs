//! The tables of each level of a cascade.

use attn_core::batch::{CascadeLevel, CascadeLevelKv, PageTable};

use super::groups::Group;
use crate::PageId;

/// The levels of a step, and memory that is reused from step to step.
#[derive(Debug, Default)]
pub(super) struct Levels {
    pub(super) tables: Vec<LevelTable>,
    pub(super) count: usize,
    pub(super) groups: Vec<Group>,
    pub(super) common: Vec<usize>,
    pub(super) memo: Vec<u64>,
    pub(super) chosen: Vec<bool>,
}

/// One level.
#[derive(Debug, Default)]
pub(super) struct LevelTable {
    pub(super) qo_indptr: Vec<i32>,
    pub(super) indptr: Vec<i32>,
    pub(super) indices: Vec<PageId>,
    pub(super) last_page_len: Vec<i32>,
}

impl Levels {
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

impl LevelTable {
    pub(super) fn level(&self, page_size: u32, num_pages: u32) -> CascadeLevel<'_> {
        let LevelTable { qo_indptr, indptr, indices, last_page_len } = self;
        let table = PageTable { indptr, indices, last_page_len, page_size, num_pages };
        CascadeLevel { qo_indptr, kv: CascadeLevelKv::Paged(table) }
    }

    pub(super) fn clear(&mut self) {
        for array in [&mut self.qo_indptr, &mut self.indptr] {
            array.clear();
            array.push(0);
        }
        self.indices.clear();
        self.last_page_len.clear();
    }
}
