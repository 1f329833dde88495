//! Slots of keys in a pool: given directly, or by request and position through a page table.

use super::{Array, OpError};
use crate::{batch::Layout, tensor::Reach};

/// The slot of each token's keys and values in a pool. An entry below 0 is padding: nothing is written for that token.
#[derive(Clone, Copy, Debug)]
pub enum SlotMapping<'a> {
    /// Slot numbers `page * page_size + slot`, as in vLLM's `slot_mapping`.
    Slots {
        /// `[tokens]`.
        slots: Array<'a, i64>,
        /// `[tokens]` positions of the keys in their sequences, if a transform reads them.
        positions: Option<Array<'a, i32>>,
    },
    /// Requests and positions, mapped through a page table.
    Positions {
        /// `[tokens]` requests.
        requests: Array<'a, i32>,
        /// `[tokens]` positions of the keys in their sequences.
        positions: Array<'a, i32>,
        /// The pages of the requests.
        rows: PageTableRows<'a>,
    },
}

/// A page table: the pages of each request, in the order of keys.
#[derive(Clone, Copy, Debug)]
pub enum PageTableRows<'a> {
    /// Compressed rows.
    Csr {
        /// `[requests + 1]` prefix sums of page counts, from 0.
        indptr: Array<'a, i32>,
        /// Pages in the pool, request by request.
        pages: Array<'a, i32>,
    },
    /// A block table: rows of equal length; entries past a request's pages are never read.
    Padded {
        /// `[requests * max_pages]` pages in the pool.
        pages: Array<'a, i32>,
        /// Entries of a row.
        max_pages: usize,
    },
}

impl SlotMapping<'_> {
    /// The bytes of its arrays, by their names.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (&'static str, Reach<'_>)> {
        let [first, second] = match self {
            SlotMapping::Slots { slots, positions } => {
                [Some(("slots", slots.reach())), positions.as_ref().map(|of| ("positions", of.reach()))]
            }
            SlotMapping::Positions { requests, positions, .. } => {
                [Some(("requests", requests.reach())), Some(("positions", positions.reach()))]
            }
        };
        let rows = match self {
            SlotMapping::Slots { .. } => [None, None],
            SlotMapping::Positions { rows: PageTableRows::Csr { indptr, pages }, .. } => {
                [Some(("page_indptr", indptr.reach())), Some(("pages", pages.reach()))]
            }
            SlotMapping::Positions { rows: PageTableRows::Padded { pages, .. }, .. } => {
                [Some(("pages", pages.reach())), None]
            }
        };
        [first, second].into_iter().chain(rows).flatten()
    }
}

impl<'a> PageTableRows<'a> {
    /// Number of requests.
    ///
    /// # Errors
    ///
    /// Arrays whose lengths do not agree.
    pub fn requests(&self) -> Result<usize, OpError> {
        match self {
            PageTableRows::Csr { indptr, .. } => {
                let short = OpError::Len { array: "page_indptr", len: 0, want: 1, exact: false };
                indptr.len().checked_sub(1).ok_or(short)
            }
            PageTableRows::Padded { pages, max_pages } => {
                let requests = pages.len().checked_div(*max_pages).unwrap_or(0);
                pages.expect_len("pages", requests * max_pages)?;
                Ok(requests)
            }
        }
    }

    /// The table in host memory.
    pub(crate) fn on_host(&self) -> Result<HostPageTable<'a>, OpError> {
        let requests = self.requests()?;
        match self {
            PageTableRows::Csr { indptr, pages } => {
                let indptr = indptr.on_host("page_indptr")?;
                let pages = pages.on_host("pages")?;
                let mut before = 0;
                for (index, &end) in indptr.iter().enumerate() {
                    let (least, most) = (i64::from(before), if index == 0 { 0 } else { pages.len() as i64 });
                    check_entry("page_indptr", index, end.into(), least, most)?;
                    before = end;
                }
                Ok(HostPageTable { ends: Some(indptr), pages, max_pages: 0, requests })
            }
            PageTableRows::Padded { pages, max_pages } => {
                Ok(HostPageTable { ends: None, pages: pages.on_host("pages")?, max_pages: *max_pages, requests })
            }
        }
    }
}

/// A page table in host memory.
pub(crate) struct HostPageTable<'a> {
    ends: Option<&'a [i32]>,
    pages: &'a [i32],
    max_pages: usize,
    pub(crate) requests: usize,
}

/// Size of a pool.
#[derive(Clone, Copy)]
pub(crate) struct PoolShape {
    pub(crate) pages: usize,
    pub(crate) page_size: usize,
}

/// A page, and a slot within it.
pub(crate) type PageSlot = (usize, usize);

impl HostPageTable<'_> {
    /// The page and slot of a position of a request; `index` is that of the token, for errors.
    pub(crate) fn locate(
        &self,
        pool: PoolShape,
        index: usize,
        request: usize,
        position: usize,
    ) -> Result<PageSlot, OpError> {
        let (first, pages) = match self.ends {
            Some(ends) => (ends[request] as usize, (ends[request + 1] - ends[request]) as usize),
            None => (request * self.max_pages, self.max_pages),
        };
        let page = position.checked_div(pool.page_size).unwrap_or(0);
        if page >= pages || pool.page_size == 0 {
            let (position, page_size) = (position as i64, pool.page_size);
            return Err(OpError::PastPages { index, position, request, pages, page_size });
        }
        let at = first + page;
        check_entry("pages", at, self.pages[at].into(), 0, pool.pages as i64 - 1)?;
        Ok((self.pages[at] as usize, position % pool.page_size))
    }
}

pub(crate) fn check_entry(array: &'static str, index: usize, value: i64, least: i64, most: i64) -> Result<(), OpError> {
    let inside = (least..=most).contains(&value);
    if inside { Ok(()) } else { Err(OpError::Entry { array, index, value, least, most }) }
}

/// A token: its slot, and its coordinates for a transform.
#[derive(Clone, Copy)]
pub(super) struct AppendTarget {
    pub(super) page_slot: PageSlot,
    pub(super) request: i32,
    pub(super) position: i32,
}

impl SlotMapping<'_> {
    /// Checks the lengths of the arrays.
    ///
    /// # Errors
    ///
    /// Arrays whose lengths differ from each other or from the number of tokens.
    pub fn check(&self, tokens: usize) -> Result<(), OpError> {
        match self {
            SlotMapping::Slots { slots, positions } => {
                slots.expect_len("slots", tokens)?;
                positions.map_or(Ok(()), |positions| positions.expect_len("positions", tokens))
            }
            SlotMapping::Positions { requests, positions, rows } => {
                requests.expect_len("requests", tokens)?;
                positions.expect_len("positions", tokens)?;
                rows.requests().map(|_| ())
            }
        }
    }

    /// Whether the positions of keys are known.
    #[must_use]
    pub fn has_positions(&self) -> bool {
        self.positions().is_some()
    }

    /// The positions of keys.
    pub(super) fn positions(&self) -> Option<&Array<'_, i32>> {
        match self {
            SlotMapping::Slots { positions, .. } => positions.as_ref(),
            SlotMapping::Positions { positions, .. } => Some(positions),
        }
    }

    /// The target of each token; `None` for padding. Every entry is checked.
    pub(super) fn targets(&self, pool: PoolShape) -> Result<Vec<Option<AppendTarget>>, OpError> {
        match self {
            SlotMapping::Slots { slots, positions } => {
                let slots = slots.on_host("slots")?;
                let positions = positions.map(|positions| positions.on_host("positions")).transpose()?;
                let most = (pool.pages * pool.page_size) as i64 - 1;
                let target = |(index, &slot): (usize, &i64)| {
                    if slot < 0 {
                        return Ok(None);
                    }
                    check_entry("slots", index, slot, 0, most)?;
                    let page_slot = (slot as usize / pool.page_size, slot as usize % pool.page_size);
                    let position = positions.map_or(0, |positions| positions[index]);
                    Ok(Some(AppendTarget { page_slot, request: 0, position }))
                };
                slots.iter().enumerate().map(target).collect()
            }
            SlotMapping::Positions { requests, positions, rows } => {
                let (requests, positions) = (requests.on_host("requests")?, positions.on_host("positions")?);
                let rows = rows.on_host()?;
                let target = |(index, (&request, &position)): (usize, (&i32, &i32))| {
                    if request < 0 || position < 0 {
                        return Ok(None);
                    }
                    check_entry("requests", index, request.into(), 0, rows.requests as i64 - 1)?;
                    let page_slot = rows.locate(pool, index, request as usize, position as usize)?;
                    Ok(Some(AppendTarget { page_slot, request, position }))
                };
                requests.iter().zip(positions).enumerate().map(target).collect()
            }
        }
    }
}

/// The slots (`page * page_size + slot`) of a batch's new keys: the last `qo_len` keys of each request. Queries beyond
/// the keys of a request have none (-1). `None` for keys that are not in pages.
#[must_use]
pub fn slots_of_new_keys(layout: &Layout) -> Option<Vec<i64>> {
    let pages = layout.pages()?;
    let of_request = |request: usize| {
        let (queries, keys) = (layout.qo_len(request), layout.kv_len(request));
        (0..queries).map(move |query| {
            let Some(key) = (keys + query).checked_sub(queries) else { return -1 };
            let (page, slot) = pages.locate(request, key);
            page as i64 * i64::from(pages.page_size()) + slot as i64
        })
    };
    Some((0..layout.batch()).flat_map(of_request).collect())
}
