//! Where keys are in a pool: by slots, or by requests and positions through a page table.

use super::{Array, OpError};
use crate::batch::Layout;

/// Where rows of keys and values go in a pool. An entry for each token; one below 0 says that there is nothing to write (padding).
#[derive(Clone, Copy, Debug)]
pub enum Places<'a> {
    /// By number: `page * page_size + slot`, as in a `slot_mapping`.
    Slots {
        /// `[tokens]`.
        slots: Array<'a, i64>,
        /// `[tokens]` positions of the keys in their sequences, which a transform asks for.
        positions: Option<Array<'a, i32>>,
    },
    /// By request and position, through a page table.
    Positions {
        /// `[tokens]` requests.
        requests: Array<'a, i32>,
        /// `[tokens]` positions of the keys in their sequences.
        positions: Array<'a, i32>,
        /// The pages of the requests.
        rows: PageRows<'a>,
    },
}

/// A page table: the pages of each request, in the order of keys.
#[derive(Clone, Copy, Debug)]
pub enum PageRows<'a> {
    /// In compressed rows.
    Csr {
        /// `[requests + 1]` prefix sums of page counts, from 0.
        indptr: Array<'a, i32>,
        /// Pages in the pool, request by request.
        pages: Array<'a, i32>,
    },
    /// A block table: rows of one length, of which entries past a request's pages are never read.
    Padded {
        /// `[requests * max_pages]` pages in the pool.
        pages: Array<'a, i32>,
        /// Entries of a row.
        max_pages: usize,
    },
}

impl<'a> PageRows<'a> {
    /// How many requests have a row.
    ///
    /// # Errors
    ///
    /// Arrays that do not go together.
    pub fn requests(&self) -> Result<usize, OpError> {
        match self {
            PageRows::Csr { indptr, .. } => {
                let short = OpError::Len { array: "page_indptr", len: 0, want: 1, exact: false };
                indptr.len().checked_sub(1).ok_or(short)
            }
            PageRows::Padded { pages, max_pages } => {
                let requests = pages.len().checked_div(*max_pages).unwrap_or(0);
                pages.expect_len("pages", requests * max_pages)?;
                Ok(requests)
            }
        }
    }

    /// The rows, in memory of the host.
    pub(super) fn on_host(&self) -> Result<HostRows<'a>, OpError> {
        let requests = self.requests()?;
        match self {
            PageRows::Csr { indptr, pages } => {
                let indptr = indptr.on_host("page_indptr")?;
                let pages = pages.on_host("pages")?;
                let mut before = 0;
                for (index, &end) in indptr.iter().enumerate() {
                    let (least, most) = (i64::from(before), if index == 0 { 0 } else { pages.len() as i64 });
                    entry("page_indptr", index, end.into(), least, most)?;
                    before = end;
                }
                Ok(HostRows { ends: Some(indptr), pages, max_pages: 0, requests })
            }
            PageRows::Padded { pages, max_pages } => {
                Ok(HostRows { ends: None, pages: pages.on_host("pages")?, max_pages: *max_pages, requests })
            }
        }
    }
}

/// A page table in memory of the host.
pub(super) struct HostRows<'a> {
    ends: Option<&'a [i32]>,
    pages: &'a [i32],
    max_pages: usize,
    pub(super) requests: usize,
}

/// A pool, as far as places go.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    pub(super) pages: usize,
    pub(super) page_size: usize,
}

/// Page and slot.
pub(super) type Place = (usize, usize);

impl HostRows<'_> {
    /// Where a position of a request is; `index` is that of the token, for messages.
    pub(super) fn locate(&self, pool: Pool, index: usize, request: usize, position: usize) -> Result<Place, OpError> {
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
        entry("pages", at, self.pages[at].into(), 0, pool.pages as i64 - 1)?;
        Ok((self.pages[at] as usize, position % pool.page_size))
    }
}

pub(super) fn entry(array: &'static str, index: usize, value: i64, least: i64, most: i64) -> Result<(), OpError> {
    let inside = (least..=most).contains(&value);
    if inside { Ok(()) } else { Err(OpError::Entry { array, index, value, least, most }) }
}

/// A token: where its rows go, and what a transform is told.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) place: Place,
    pub(super) request: i32,
    pub(super) position: i32,
}

impl Places<'_> {
    /// Checks the lengths of the arrays.
    ///
    /// # Errors
    ///
    /// Arrays that do not go together, or not with the tokens.
    pub fn check(&self, tokens: usize) -> Result<(), OpError> {
        match self {
            Places::Slots { slots, positions } => {
                slots.expect_len("slots", tokens)?;
                positions.map_or(Ok(()), |positions| positions.expect_len("positions", tokens))
            }
            Places::Positions { requests, positions, rows } => {
                requests.expect_len("requests", tokens)?;
                positions.expect_len("positions", tokens)?;
                rows.requests().map(|_| ())
            }
        }
    }

    /// Whether positions are told.
    #[must_use]
    pub fn has_positions(&self) -> bool {
        !matches!(self, Places::Slots { positions: None, .. })
    }

    /// Of each token, where it goes; `None` for padding. All are checked.
    pub(super) fn targets(&self, pool: Pool) -> Result<Vec<Option<Target>>, OpError> {
        match self {
            Places::Slots { slots, positions } => {
                let slots = slots.on_host("slots")?;
                let positions = positions.map(|positions| positions.on_host("positions")).transpose()?;
                let most = (pool.pages * pool.page_size) as i64 - 1;
                let target = |(index, &slot): (usize, &i64)| {
                    if slot < 0 {
                        return Ok(None);
                    }
                    entry("slots", index, slot, 0, most)?;
                    let place = (slot as usize / pool.page_size, slot as usize % pool.page_size);
                    let position = positions.map_or(0, |positions| positions[index]);
                    Ok(Some(Target { place, request: 0, position }))
                };
                slots.iter().enumerate().map(target).collect()
            }
            Places::Positions { requests, positions, rows } => {
                let (requests, positions) = (requests.on_host("requests")?, positions.on_host("positions")?);
                let rows = rows.on_host()?;
                let target = |(index, (&request, &position)): (usize, (&i32, &i32))| {
                    if request < 0 || position < 0 {
                        return Ok(None);
                    }
                    entry("requests", index, request.into(), 0, rows.requests as i64 - 1)?;
                    let place = rows.locate(pool, index, request as usize, position as usize)?;
                    Ok(Some(Target { place, request, position }))
                };
                requests.iter().zip(positions).enumerate().map(target).collect()
            }
        }
    }
}

/// The slots (`page * page_size + slot`) of a batch's new keys: those of each request's queries, which are the last of its keys. Queries beyond the
/// keys of a request have none (-1). `None` for keys that are not in pages.
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
