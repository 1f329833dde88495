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
    let (groups, page_size) = check_groups(qo_indptr, levels)?;
    let mut pages = Pages { indptr: vec![0; requests + 1], page_size, ..Pages::default() };
    let mut segments = CascadeSegments {
        count: levels.len(),
        of_request: vec![-1; requests * levels.len()],
        ..CascadeSegments::default()
    };
    // keys of each request in the levels so far
    let mut lens = vec![0i64; requests];
    for (i, (level, groups)) in levels.iter().zip(&groups).enumerate() {
        let keys = LevelKeys::of(level, groups, &mut pages).map_err(in_level(i))?;
        add_segments(&mut segments, &mut lens, i, groups, &keys)?;
        if let CascadeLevelKv::Ragged(indptr) = level.kv {
            segments.tokens = segments.tokens.max(indptr.last().copied().unwrap_or(0));
        }
    }
    prefix_sums(&mut layout.kv_indptr, &lens)?;
    for segment in &mut segments.segments {
        let request = segment.request as usize;
        (segment.kv_token, segment.kv_len) = (layout.kv_indptr[request], layout.kv_len(request) as i32);
    }
    layout.pages = (page_size > 0).then_some(pages);
    layout.levels = Some(segments);
    Ok(())
}

/// An error within level number `level`.
fn in_level(level: usize) -> impl Fn(BatchError) -> BatchError {
    move |error| BatchError::CascadeLevel { level, error: Box::new(error) }
}

/// The group of each request in each level, and the greatest common divisor of the page sizes; 0 for ragged keys.
/// Checks that a group of a level is within one group of the level before, and that levels are all ragged or all paged.
fn check_groups(qo_indptr: &[i32], levels: &[CascadeLevel<'_>]) -> Result<(Vec<Vec<i32>>, u32), BatchError> {
    let is_paged = |level: &CascadeLevel<'_>| matches!(level.kv, CascadeLevelKv::Paged(_));
    let paged = levels.first().map(is_paged).ok_or(BatchError::NoLevels)?;
    let mut page_size = 0;
    let mut groups: Vec<Vec<i32>> = Vec::with_capacity(levels.len());
    for (i, level) in levels.iter().enumerate() {
        let finer = groups_of(qo_indptr, level.qo_indptr).map_err(in_level(i))?;
        if let Some(coarser) = groups.last() {
            check_nested(coarser, &finer).map_err(in_level(i))?;
        }
        groups.push(finer);
        if let CascadeLevelKv::Paged(table) = &level.kv {
            page_size = greatest_common_divisor(page_size, table.page_size);
        }
        if is_paged(level) != paged {
            return Err(BatchError::LevelsDiffer { level: i });
        }
    }
    Ok((groups, page_size))
}

/// Adds a segment for each group of a level that has keys: the run of neighbouring requests in the group, behind the
/// keys that these have in the levels before (`lens`, which grows by the segment).
fn add_segments(
    segments: &mut CascadeSegments,
    lens: &mut [i64],
    level: usize,
    groups: &[i32],
    keys: &LevelKeys<'_>,
) -> Result<(), BatchError> {
    let mut first = 0;
    for requests in groups.chunk_by(|a, b| a == b) {
        let (run, group) = (first..first + requests.len(), requests[0]);
        first = run.end;
        let (memory, len) = keys.of_group(group);
        if len == 0 {
            continue;
        }
        let (request, kv_begin) = (run.start, lens[run.start]);
        let end = kv_begin + i64::from(len);
        if end > MAX_TOKENS.into() {
            return Err(BatchError::TooManyKeys { request, total: end });
        }
        lens[run.clone()].fill(end);
        let number = segments.segments.len() as i32;
        run.clone().for_each(|request| segments.of_request[request * segments.count + level] = number);
        // a sum past 2^31 is refused with the keys of all requests, which are no fewer
        let pass = segments.segments.last().map_or(0, |last| last.pass.saturating_add(last.keys));
        segments.segments.push(KvSegment {
            request: request as i32,
            requests: run.len() as i32,
            kv_begin: kv_begin as i32,
            keys: len,
            memory,
            pass,
            ..KvSegment::default()
        });
    }
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
    let mut group_of = Vec::with_capacity(requests);
    let mut group = 0;
    for (request, queries) in qo_indptr.windows(2).enumerate() {
        while group + 1 < groups && ends[group + 1] <= queries[0] {
            group += 1;
        }
        if queries[0] < queries[1] && ends[group + 1] < queries[1] {
            return Err(BatchError::GroupCutsRequest { index: group + 1, value: ends[group + 1], request });
        }
        group_of.push(if groups == 0 { -1 } else { group as i32 });
    }
    Ok(group_of)
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
                table.write_kv_indptr(&mut ends)?;
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
