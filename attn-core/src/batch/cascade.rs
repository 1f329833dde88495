//! Cascades: batches whose requests share keys, level by level.

use super::error::BatchError;
use super::indptr::{check_indptr, check_len};
use super::layout::{Layout, Pages};
use super::limits::MAX_TOKENS;
use super::page_table::PageTable;
use super::segment::{CascadeSegments, KvSegment};

/// A level of a cascade: groups of neighbouring requests, and the keys that the requests of each group share.
///
/// The keys of a request are those of its group in the first level, then those of its group in the second level, and so
/// on; positions count over all levels. A request without queries belongs to the group of the next query in the batch
/// (at the end, to the last group). In a level whose `qo_indptr` equals that of the batch every request is a group.
/// Compare FlashInfer's cascade inference.
#[derive(Clone, Copy, Debug)]
pub struct CascadeLevel<'a> {
    /// `[groups + 1]` prefix sums of query counts; each must occur in the batch's `qo_indptr`.
    pub qo_indptr: &'a [i32],
    /// The keys of each group.
    pub kv: CascadeLevelKv<'a>,
}

/// The keys of a level. The levels of a cascade are all ragged, or all paged.
#[derive(Clone, Copy, Debug)]
pub enum CascadeLevelKv<'a> {
    /// `[groups + 1]` prefix sums of key counts, as tokens of k and v; they need not begin at 0.
    Ragged(&'a [i32]),
    /// A page table with a row for each group. Levels may have different page sizes. The pool then counts in pages of
    /// their greatest common divisor ([`Pages::page_size`]): page `p` of a level whose pages are `n` times as large is
    /// the pages `n * p .. n * (p + 1)` of the pool.
    Paged(PageTable<'a>),
}

/// Checks the levels, and writes the layout except its `qo_indptr`, which is checked already.
pub(super) fn fill(layout: &mut Layout, qo_indptr: &[i32], levels: &[CascadeLevel<'_>]) -> Result<(), BatchError> {
    let requests = qo_indptr.len() - 1;
    let paged = match levels.first() {
        None => return Err(BatchError::NoLevels),
        Some(level) => matches!(level.kv, CascadeLevelKv::Paged(_)),
    };
    let of_level = |level: usize| move |error| BatchError::CascadeLevel { level, error: Box::new(error) };
    let mut page_size = 0;
    let mut groups: Vec<Vec<i32>> = Vec::with_capacity(levels.len());
    for (i, level) in levels.iter().enumerate() {
        let of = groups_of(qo_indptr, level.qo_indptr).map_err(of_level(i))?;
        if let Some(coarser) = groups.last() {
            check_nested(coarser, &of).map_err(of_level(i))?;
        }
        groups.push(of);
        if let CascadeLevelKv::Paged(table) = &level.kv {
            page_size = greatest_common_divisor(page_size, table.page_size);
        }
        if matches!(level.kv, CascadeLevelKv::Paged(_)) != paged {
            return Err(BatchError::LevelsDiffer { level: i });
        }
    }
    let mut made = CascadeSegments {
        count: levels.len(),
        of_request: vec![-1; requests * levels.len()],
        ..CascadeSegments::default()
    };
    let mut pages = Pages { indptr: vec![0; requests + 1], page_size, ..Pages::default() };
    let mut lens = vec![0i64; requests];
    let mut pass = 0i64;
    for (i, (level, groups)) in levels.iter().zip(&groups).enumerate() {
        let keys = LevelKeys::of(level, groups, &mut pages).map_err(of_level(i))?;
        let mut first = 0;
        while first < requests {
            let group = groups[first];
            let count = groups[first..].iter().take_while(|of| **of == group).count();
            let (kv_begin, (memory, len)) = (lens[first], keys.of_group(group));
            if len > 0 {
                let end = kv_begin + i64::from(len);
                if end > MAX_TOKENS.into() {
                    return Err(BatchError::TooManyKeys { request: first, total: end });
                }
                let segment = KvSegment {
                    request: first as i32,
                    requests: count as i32,
                    kv_begin: kv_begin as i32,
                    keys: len,
                    memory,
                    pass: i32::try_from(pass).unwrap_or(i32::MAX), // refused below
                    ..KvSegment::default()
                };
                pass += i64::from(len);
                lens[first..first + count].fill(end);
                let of_requests = made.of_request.chunks_exact_mut(levels.len()).skip(first).take(count);
                of_requests.for_each(|of_request| of_request[i] = made.segments.len() as i32);
                made.segments.push(segment);
            }
            first += count;
        }
        if let CascadeLevelKv::Ragged(indptr) = level.kv {
            made.tokens = made.tokens.max(indptr.last().copied().unwrap_or(0));
        }
    }
    // every segment has a request, so the total of `pass` is at most this
    prefix_sums(&mut layout.kv_indptr, &lens)?;
    for segment in &mut made.segments {
        let request = segment.request as usize;
        (segment.kv_token, segment.kv_len) = (layout.kv_indptr[request], layout.kv_len(request) as i32);
    }
    layout.pages = paged.then_some(pages);
    layout.levels = Some(made);
    Ok(())
}

/// The group of each request; -1 if there are no groups.
fn groups_of(qo_indptr: &[i32], ends: &[i32]) -> Result<Vec<i32>, BatchError> {
    check_indptr("qo_indptr", ends)?;
    let (requests, groups) = (qo_indptr.len() - 1, ends.len() - 1);
    let (total, value) = (qo_indptr[requests], ends[groups]);
    if value != total {
        return Err(BatchError::LevelEnd { value, want: total });
    }
    if qo_indptr == ends {
        return Ok((0..requests as i32).collect());
    }
    let mut of = Vec::with_capacity(requests);
    let mut group = 0;
    for (request, queries) in qo_indptr.windows(2).enumerate() {
        while group + 1 < groups && ends[group + 1] <= queries[0] {
            group += 1;
        }
        if queries[0] < queries[1] && ends[group + 1] < queries[1] {
            return Err(BatchError::GroupCutsRequest { index: group + 1, value: ends[group + 1], request });
        }
        of.push(if groups == 0 { -1 } else { group as i32 });
    }
    Ok(of)
}

/// Checks that the requests of a finer group are in one coarser group.
fn check_nested(coarser: &[i32], finer: &[i32]) -> Result<(), BatchError> {
    let pairs = coarser.windows(2).zip(finer.windows(2));
    match pairs.enumerate().find(|(_, (coarser, finer))| finer[0] == finer[1] && coarser[0] != coarser[1]) {
        Some((before, (_, finer))) => Err(BatchError::NotNested { group: finer[0] as usize, request: before + 1 }),
        None => Ok(()),
    }
}

/// The validated keys of a level.
enum LevelKeys<'a> {
    Ragged(&'a [i32]),
    /// Prefix sums of key counts, and the first entry of each group in the page table of all levels.
    Paged {
        ends: Vec<i32>,
        first: Vec<i32>,
    },
}

impl<'a> LevelKeys<'a> {
    /// Checks the keys of a level, and appends the pages of groups that have requests to the table. `groups` has the
    /// group of each request.
    fn of(level: &CascadeLevel<'a>, groups: &[i32], pages: &mut Pages) -> Result<Self, BatchError> {
        let entries = level.qo_indptr.len();
        match &level.kv {
            CascadeLevelKv::Ragged(indptr) => {
                check_len("kv_indptr", indptr.len(), "qo_indptr", entries)?;
                check_ascending("kv_indptr", indptr)?;
                Ok(LevelKeys::Ragged(indptr))
            }
            CascadeLevelKv::Paged(table) => {
                check_indptr("page_indptr", table.indptr)?;
                check_len("page_indptr", table.indptr.len(), "qo_indptr", entries)?;
                let (mut used, mut ends) = (Vec::new(), Vec::new());
                let pool = table.check_into(&mut used)?;
                table.kv_indptr(&mut ends)?;
                let parts = table.page_size / pages.page_size;
                let pool = u64::from(pool) * u64::from(parts);
                if pool > i32::MAX as u64 {
                    return Err(BatchError::PoolTooLarge { pages: pool, page_size: pages.page_size });
                }
                pages.min_pool = pages.min_pool.max(pool as u32);
                let mut first = Vec::with_capacity(entries);
                let mut asked = vec![false; entries];
                groups.iter().filter_map(|&group| usize::try_from(group).ok()).for_each(|group| asked[group] = true);
                for ((rows, keys), asked) in table.indptr.windows(2).zip(ends.windows(2)).zip(asked) {
                    // a level has fewer than 2^30 keys: `fill` refuses more
                    first.push(i32::try_from(pages.indices.len()).unwrap_or(i32::MAX));
                    let needed =
                        if asked { ((keys[1] - keys[0]) as u32).div_ceil(pages.page_size) as usize } else { 0 };
                    let of_group = &used[rows[0] as usize..rows[1] as usize];
                    let split =
                        of_group.iter().flat_map(|&page| (0..parts as i32).map(move |i| page * parts as i32 + i));
                    pages.indices.extend(split.take(needed));
                }
                Ok(LevelKeys::Paged { ends, first })
            }
        }
    }

    /// The start of a group's keys in memory, and their number.
    fn of_group(&self, group: i32) -> (i32, i32) {
        let Ok(group) = usize::try_from(group) else { return (0, 0) };
        match self {
            LevelKeys::Ragged(indptr) => (indptr[group], indptr[group + 1] - indptr[group]),
            LevelKeys::Paged { ends, first } => (first[group], ends[group + 1] - ends[group]),
        }
    }
}

/// Checks prefix sums that may begin above 0.
fn check_ascending(array: &'static str, sums: &[i32]) -> Result<(), BatchError> {
    match sums.first() {
        Some(&first) if first < 0 => return Err(BatchError::NegativeToken { array, value: first }),
        _ => {}
    }
    if let Some(i) = sums.windows(2).position(|ends| ends[1] < ends[0]) {
        return Err(BatchError::IndptrNotMonotone { array, index: i + 1, value: sums[i + 1], before: sums[i] });
    }
    match sums.last() {
        Some(&total) if total > MAX_TOKENS => Err(BatchError::TooManyTokens { array, total }),
        _ => Ok(()),
    }
}

/// Writes prefix sums of lengths.
fn prefix_sums(to: &mut Vec<i32>, lens: &[i64]) -> Result<(), BatchError> {
    to.clear();
    to.push(0);
    let mut total = 0;
    for (request, len) in lens.iter().enumerate() {
        total += len;
        if total > MAX_TOKENS.into() {
            return Err(BatchError::TooManyKeys { request, total });
        }
        to.push(total as i32);
    }
    Ok(())
}

pub(crate) fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
