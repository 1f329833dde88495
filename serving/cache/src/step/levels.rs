//! Cascade levels: which shared prefixes become segments.

use attn_core::batch::CascadeLevel;

use super::{
    CascadeCost, Segment, Step,
    build::common_entries,
    groups::{Group, MAX_DEPTH, groups},
    level_tables::{LevelTable, Levels},
};
use crate::PageId;

impl Step {
    /// Chooses the levels of the step that was built last: groups of neighbouring requests that share whole pages, of
    /// the least cost, with at most the capacity's levels. Returns how many there are; 1 means that sharing does not
    /// pay, and every request has its keys alone.
    ///
    /// Groups lie within groups to a depth of six, so there are at most seven levels, whatever the capacity. What
    /// deeper groups share, each of their requests has alone.
    pub fn choose_levels(&mut self, cost: &(impl CascadeCost + ?Sized)) -> usize {
        let mut levels = std::mem::take(&mut self.levels);
        self.shared_pages(&mut levels.common);
        groups(&levels.common, &mut levels.groups);
        self.choose(&mut levels, cost);
        self.write_levels(&mut levels);
        self.levels = levels;
        self.levels.count
    }

    /// The levels that were chosen, from the outermost on, for
    /// [`Batch::cascade`](attn_core::batch::Batch::cascade) with the queries of [`Step::arrays`]. Empty before
    /// [`Step::choose_levels`].
    #[must_use]
    pub fn levels(&self) -> Vec<CascadeLevel<'_>> {
        let (page_size, num_pages) = (self.page_size as u32, self.num_pages as u32); // both are below 2^31
        let tables = self.levels.tables[..self.levels.count].iter();
        tables.map(|table| table.level(page_size, num_pages)).collect()
    }

    fn row(&self, request: usize) -> &[PageId] {
        let word = |at: usize| self.words[self.sections.page_indptr.start + at] as usize;
        let entries = self.sections.page_indices.start;
        &self.words[entries + word(request)..entries + word(request + 1)]
    }

    /// How many whole pages of written keys each request shares with the one before it. Pages with new tokens are not
    /// shared.
    fn shared_pages(&self, common: &mut Vec<usize>) {
        let arrays = self.arrays();
        let written = |request: usize| {
            let new = arrays.qo_indptr[request + 1] - arrays.qo_indptr[request];
            (arrays.kv_lens[request] - new) as usize / self.page_size
        };
        common.clear();
        common.extend((0..self.requests).map(|request| match request.checked_sub(1) {
            None => 0,
            Some(before) => {
                let (a, b) = (&self.row(before)[..written(before)], &self.row(request)[..written(request)]);
                common_entries(a, b)
            }
        }));
    }

    /// Marks the groups whose pages become a segment of their own.
    fn choose(&self, levels: &mut Levels, cost: &(impl CascadeCost + ?Sized)) {
        // groups lie within groups to this depth, so more levels are never chosen
        let shared_levels = self.capacity.levels.saturating_sub(1).min(MAX_DEPTH);
        levels.chosen.clear();
        levels.chosen.resize(levels.groups.len(), false);
        levels.memo.clear();
        levels.memo.resize(levels.groups.len() * (MAX_DEPTH + 1) * (shared_levels + 1), u64::MAX);
        let mut search = Search { step: self, groups: &levels.groups, memo: &mut levels.memo, cost, shared_levels };
        let mut group = 0;
        while group < levels.groups.len() {
            search.mark(group, None, shared_levels, &mut levels.chosen);
            group = levels.groups[group].end;
        }
    }

    pub(super) fn write_levels(&self, levels: &mut Levels) {
        let Levels { tables, groups, chosen, count, .. } = levels;
        // how many chosen groups are around a group, itself included
        let level_of = |mut group: usize| {
            let mut level = 0;
            while let Some(parent) = groups[group].parent {
                level += usize::from(chosen[parent]);
                group = parent;
            }
            level
        };
        *count = 1 + (0..groups.len()).filter(|&i| chosen[i]).map(|i| level_of(i) + 1).max().unwrap_or(0);
        tables.resize_with((*count).max(tables.len()), LevelTable::default);
        let qo_indptr = self.arrays().qo_indptr;
        // pages of each request that levels before this one have
        let mut done = vec![0; self.requests];
        for (level, table) in tables[..*count].iter_mut().enumerate() {
            table.clear();
            let last = level + 1 == *count;
            let mut shared = (0..groups.len()).filter(|&i| !last && chosen[i] && level_of(i) == level).peekable();
            let mut request = 0;
            while request < self.requests {
                let group = shared.next_if(|&i| groups[i].requests.start == request).map(|i| &groups[i]);
                let (end, pages) = match group {
                    Some(group) => (group.requests.end, group.pages),
                    None if last => (request + 1, self.row(request).len()),
                    None => (request + 1, done[request]),
                };
                table.indices.extend_from_slice(&self.row(request)[done[request]..pages]);
                let tokens = if pages == done[request] {
                    0
                } else if last {
                    self.arrays().last_page_len[request]
                } else {
                    self.page_size as i32
                };
                done[request..end].fill(pages);
                table.last_page_len.push(tokens);
                table.indptr.push(table.indices.len() as i32);
                table.qo_indptr.push(qo_indptr[end]);
                request = end;
            }
        }
    }
}

/// The search for the groups of the least cost: for each group, each nearest chosen group around it, and each number of
/// levels that are left, once.
struct Search<'a, C: ?Sized> {
    step: &'a Step,
    groups: &'a [Group],
    /// [group][depth of the nearest chosen group around it + 1][levels left]
    memo: &'a mut [u64],
    cost: &'a C,
    shared_levels: usize,
}

impl<C: CascadeCost + ?Sized> Search<'_, C> {
    fn pages_before(&self, around: Option<usize>) -> usize {
        around.map_or(0, |around| self.groups[around].pages)
    }

    /// The least cost of the requests of a group, with keys before those of `around` left out.
    fn best(&mut self, group: usize, around: Option<usize>, left: usize) -> u64 {
        let chosen = around.map_or(0, |around| self.groups[around].depth + 1);
        let key = (group * (MAX_DEPTH + 1) + chosen) * (self.shared_levels + 1) + left;
        if self.memo[key] == u64::MAX {
            let apart = self.apart(group, around, left);
            self.memo[key] = apart.min(self.together(group, around, left));
        }
        self.memo[key]
    }

    /// The cost if the group has no segment of its own.
    fn apart(&mut self, group: usize, around: Option<usize>, left: usize) -> u64 {
        let Group { requests, end, .. } = self.groups[group].clone();
        let (mut inner, mut cost, mut request) = (group + 1, 0u64, requests.start);
        let begin = self.pages_before(around) * self.step.page_size;
        let arrays = self.step.arrays();
        while request < requests.end {
            if inner < end && self.groups[inner].requests.start == request {
                cost = cost.saturating_add(self.best(inner, around, left));
                (request, inner) = (self.groups[inner].requests.end, self.groups[inner].end);
                continue;
            }
            let queries = (arrays.qo_indptr[request + 1] - arrays.qo_indptr[request]) as usize;
            let keys = arrays.kv_lens[request] as usize - begin;
            cost = cost.saturating_add(self.cost.cost(&Segment { requests: 1, queries, keys }));
            request += 1;
        }
        cost
    }

    /// The cost if the group has one.
    fn together(&mut self, group: usize, around: Option<usize>, left: usize) -> u64 {
        let Some(left) = left.checked_sub(1) else { return u64::MAX };
        let Group { requests, pages, .. } = &self.groups[group];
        let ends = self.step.arrays().qo_indptr;
        let queries = (ends[requests.end] - ends[requests.start]) as usize;
        let keys = (pages - self.pages_before(around)) * self.step.page_size;
        let own = self.cost.cost(&Segment { requests: requests.len(), queries, keys });
        own.saturating_add(self.apart(group, Some(group), left))
    }

    /// Marks the groups of the least cost. At equal cost there are fewer segments.
    fn mark(&mut self, group: usize, around: Option<usize>, left: usize, chosen: &mut [bool]) {
        let apart = self.apart(group, around, left);
        let (around, left) = match self.together(group, around, left) < apart {
            true => (Some(group), left - 1),
            false => (around, left),
        };
        chosen[group] = around == Some(group);
        let (mut inner, end) = (group + 1, self.groups[group].end);
        while inner < end {
            self.mark(inner, around, left, chosen);
            inner = self.groups[inner].end;
        }
    }
}
