//! The lengths and pages of a case's keys, as owned arrays of a batch.

use attn::Batch;
use attn::batch::{BlockTable, CascadeLevel, CascadeLevelKv, PageTableBuf, indptr, words};

use super::random::Random;
use super::{Case, LayoutKind, Lens, TestError};

/// Unused pages of a pool, all NaN.
const SPARE_PAGES: u32 = 5;
/// Entries of a padded row behind the longest row, which name no page.
const SPARE_ENTRIES: usize = 2;
/// Unused tokens between two levels, all NaN.
const SPARE_TOKENS: i32 = 3;

/// The lengths and pages of a case's keys.
#[derive(Debug)]
pub enum Keys {
    /// `[requests + 1]` prefix sums of key counts.
    Ragged(Vec<i32>),
    /// A page table of compressed rows.
    Paged(PageTableBuf),
    /// A block table of padded rows.
    BlockTable(BlockTableBuf),
    /// Levels of a cascade, outermost first.
    Levels(Vec<LevelBuf>),
}

/// A page table of padded rows, owned. Unused entries are `u32::MAX`, which is -1.
#[derive(Debug)]
pub struct BlockTableBuf {
    /// See [`BlockTable::pages`].
    pub pages: Vec<u32>,
    /// See [`BlockTable::max_pages`].
    pub max_pages: usize,
    /// See [`BlockTable::kv_lens`].
    pub kv_lens: Vec<u32>,
    /// See [`BlockTable::page_size`].
    pub page_size: u32,
    /// See [`BlockTable::num_pages`].
    pub num_pages: u32,
}

/// A level of a cascade, owned.
#[derive(Debug)]
pub struct LevelBuf {
    qo_indptr: Vec<i32>,
    keys: LevelKeys,
}

#[derive(Debug)]
enum LevelKeys {
    Ragged(Vec<i32>),
    Paged(PageTableBuf),
}

impl Keys {
    /// The keys of a case: pages in random order over a pool with spare pages.
    pub(super) fn new(case: &Case, qo_indptr: &[i32]) -> Result<Self, TestError> {
        let kv_lens = case.kv_lens.to_vec();
        if case.kv_layout.levels() {
            return Self::levels_of(case, qo_indptr);
        }
        if !case.kv_layout.paged() {
            return Ok(Keys::Ragged(indptr(&kv_lens)?));
        }
        let page_size = case.page_size.max(1);
        let pool = kv_lens.iter().map(|len| len.div_ceil(page_size)).sum::<u32>() + SPARE_PAGES;
        let mut order = Random::new(case.seed, 0).permutation(pool).into_iter();
        let table = PageTableBuf::from_lens(&kv_lens, page_size, pool, || order.next().unwrap_or(0));
        Ok(match case.kv_layout {
            LayoutKind::BlockTable => Keys::BlockTable(BlockTableBuf::of(&table, &kv_lens)),
            _ => Keys::Paged(table),
        })
    }

    fn levels_of(case: &Case, qo_indptr: &[i32]) -> Result<Self, TestError> {
        // requests of each group, keys of each group, pool pages in a page of the level
        let own = (vec![1; case.qo_lens.requests()], &case.kv_lens, 1);
        let pool_page = case.page_size.max(1);
        let shared = case.levels.iter().map(|level| {
            (level.groups.clone(), &level.kv_lens, level.page_size.map_or(1, |size| (size / pool_page).max(1)))
        });
        let all: Vec<(Vec<u32>, &Lens, u32)> = shared.chain([own]).collect();
        let queries_of = |groups: &[u32]| {
            let mut request = 0;
            let ends = groups.iter().map(|&count| {
                request += count as usize;
                qo_indptr.get(request).copied().unwrap_or(0)
            });
            std::iter::once(0).chain(ends).collect::<Vec<_>>()
        };
        let mut levels = Vec::with_capacity(all.len());
        if case.kv_layout.paged() {
            // the pool is allocated in units of the largest page of any level
            let unit = all.iter().map(|level| level.2).max().unwrap_or(1);
            let pages = |(_, lens, of): &(_, &Lens, u32)| {
                lens.to_vec().iter().map(|len| len.div_ceil(pool_page * of)).sum::<u32>()
            };
            let units = all.iter().map(pages).sum::<u32>() + SPARE_PAGES;
            let mut random = Random::new(case.seed, 0);
            let mut order = random.permutation(units).into_iter();
            for (groups, lens, of) in &all {
                let positions = unit / of;
                let next = || positions as i32 * order.next().unwrap_or(0) + random.below(positions.into()) as i32;
                let table = PageTableBuf::from_lens(&lens.to_vec(), pool_page * of, units * positions, next);
                levels.push(LevelBuf { qo_indptr: queries_of(groups), keys: LevelKeys::Paged(table) });
            }
        } else {
            // the innermost level is first in memory
            let mut begin = 0;
            for (groups, lens, _) in all.iter().rev() {
                let mut ends = indptr(&lens.to_vec())?;
                ends.iter_mut().for_each(|end| *end += begin);
                begin = ends.last().copied().unwrap_or(begin) + SPARE_TOKENS;
                levels.push(LevelBuf { qo_indptr: queries_of(groups), keys: LevelKeys::Ragged(ends) });
            }
            levels.reverse();
        }
        Ok(Keys::Levels(levels))
    }

    /// Whether keys are in pages.
    pub(super) fn paged(&self) -> bool {
        match self {
            Keys::Ragged(_) => false,
            Keys::Paged(_) | Keys::BlockTable(_) => true,
            Keys::Levels(levels) => levels.iter().any(|level| matches!(level.keys, LevelKeys::Paged(_))),
        }
    }

    /// Extents of the tensors of keys, (pages, slots) or (tokens), and the flat indices of slots or tokens without a
    /// key.
    pub(super) fn memory(&self, case: &Case) -> (Vec<usize>, Vec<usize>) {
        let slots = case.page_size.max(1) as usize;
        let (pages, used) = match self {
            Keys::Ragged(kv_indptr) => return (vec![kv_indptr.last().map_or(0, |&n| n as usize)], Vec::new()),
            Keys::Paged(table) => (table.num_pages, slots_of(table)),
            Keys::BlockTable(table) => (table.num_pages, table.slots()),
            Keys::Levels(levels) if self.paged() => {
                let used = levels.iter().flat_map(|level| match &level.keys {
                    LevelKeys::Paged(table) => slots_of(table),
                    LevelKeys::Ragged(_) => Vec::new(),
                });
                // every level counts the pool in pages of its own size
                let pool = levels.iter().map(|level| match &level.keys {
                    LevelKeys::Paged(table) => table.num_pages as usize * table.page_size as usize / slots,
                    LevelKeys::Ragged(_) => 0,
                });
                (pool.max().unwrap_or(0) as u32, used.collect())
            }
            Keys::Levels(levels) => {
                let runs: Vec<&Vec<i32>> = levels
                    .iter()
                    .filter_map(|level| match &level.keys {
                        LevelKeys::Ragged(ends) => Some(ends),
                        LevelKeys::Paged(_) => None,
                    })
                    .collect();
                let tokens = runs.iter().filter_map(|ends| ends.last()).max().map_or(0, |&end| end as usize);
                let used = runs.iter().flat_map(|ends| ends[0] as usize..ends[ends.len() - 1] as usize);
                return (vec![tokens], unused(tokens, used));
            }
        };
        (vec![pages as usize, slots], unused(pages as usize * slots, used.into_iter()))
    }

    /// The levels of a cascade.
    pub(super) fn levels(&self) -> Vec<CascadeLevel<'_>> {
        let Keys::Levels(levels) = self else { return Vec::new() };
        levels.iter().map(LevelBuf::level).collect()
    }

    pub(super) fn batch<'a>(&'a self, qo_indptr: &'a [i32], levels: &'a [CascadeLevel<'a>]) -> Batch<'a> {
        match self {
            Keys::Ragged(kv_indptr) => Batch::ragged(qo_indptr, kv_indptr),
            Keys::Paged(table) => Batch::paged(qo_indptr, &table.table()),
            Keys::BlockTable(table) => Batch::block_table(qo_indptr, &table.table()),
            Keys::Levels(_) => Batch::cascade(qo_indptr, levels),
        }
    }
}

impl LevelBuf {
    fn level(&self) -> CascadeLevel<'_> {
        let kv = match &self.keys {
            LevelKeys::Ragged(ends) => CascadeLevelKv::Ragged(ends),
            LevelKeys::Paged(table) => CascadeLevelKv::Paged(table.table()),
        };
        CascadeLevel { qo_indptr: &self.qo_indptr, kv }
    }

    /// The groups of the first requests of a batch. `all` are the query prefix sums of the whole batch, `kept` those of
    /// the kept requests; `keep` gives the kept keys of a group.
    pub(super) fn first(&self, all: &[i32], kept: &[i32], keep: fn(u32) -> u32) -> Result<Self, TestError> {
        let requests = kept.len() - 1;
        // one past the last request of each group
        let ends: Vec<usize> = match self.qo_indptr == all {
            true => (1..all.len()).collect(),
            false => self.qo_indptr[1..].iter().map(|end| all.partition_point(|of| of < end)).collect(),
        };
        let groups = ends.iter().take_while(|end| **end < requests).count() + 1;
        let ends = &ends[..groups.min(ends.len())];
        let queries = ends.iter().map(|&end| kept[end.min(requests)]);
        let qo_indptr = std::iter::once(0).chain(queries).collect();
        let keys = match &self.keys {
            LevelKeys::Ragged(tokens) => {
                let lens = tokens.windows(2).take(ends.len()).map(|ends| keep((ends[1] - ends[0]) as u32));
                let mut kept = indptr(&lens.collect::<Vec<_>>())?;
                kept.iter_mut().for_each(|end| *end += tokens[0]);
                LevelKeys::Ragged(kept)
            }
            LevelKeys::Paged(table) => {
                let size = table.page_size;
                let rows = table.indptr.windows(2).zip(&table.last_page_len).take(ends.len());
                let lens = rows.map(|(ends, &last)| match (ends[1] - ends[0]) as u32 {
                    0 => 0,
                    pages => keep((pages - 1) * size + last as u32),
                });
                let lens: Vec<u32> = lens.collect();
                let mut pages =
                    table.indptr.iter().zip(&lens).flat_map(|(&first, len)| {
                        table.indices[first as usize..][..len.div_ceil(size) as usize].iter()
                    });
                let next = || pages.next().copied().unwrap_or(0);
                LevelKeys::Paged(PageTableBuf::from_lens(&lens, size, table.num_pages, next))
            }
        };
        Ok(LevelBuf { qo_indptr, keys })
    }
}

impl BlockTableBuf {
    /// The same table as padded rows.
    fn of(table: &PageTableBuf, kv_lens: &[u32]) -> Self {
        let rows: Vec<&[i32]> =
            table.indptr.windows(2).map(|ends| &table.indices[ends[0] as usize..ends[1] as usize]).collect();
        Self::of_rows(&rows, kv_lens, table.page_size, table.num_pages)
    }

    pub(super) fn of_rows(rows: &[&[i32]], kv_lens: &[u32], page_size: u32, num_pages: u32) -> Self {
        let max_pages = rows.iter().map(|row| row.len()).max().unwrap_or(0) + SPARE_ENTRIES;
        let padded = |row: &&[i32]| {
            let none = std::iter::repeat_n(u32::MAX, max_pages - row.len());
            row.iter().map(|&page| page as u32).chain(none).collect::<Vec<_>>()
        };
        let pages = rows.iter().flat_map(padded).collect();
        BlockTableBuf { pages, max_pages, kv_lens: kv_lens.to_vec(), page_size, num_pages }
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> BlockTable<'_> {
        let &BlockTableBuf { max_pages, page_size, num_pages, .. } = self;
        BlockTable { pages: words(&self.pages), max_pages, kv_lens: words(&self.kv_lens), page_size, num_pages }
    }

    /// The flat indices of the slots that hold a key.
    fn slots(&self) -> Vec<usize> {
        let row = |(request, &len): (usize, &u32)| {
            let pages = &self.pages[request * self.max_pages..][..len.div_ceil(self.page_size) as usize];
            slots(pages.iter().map(|&page| page as usize), len as usize, self.page_size as usize)
        };
        self.kv_lens.iter().enumerate().flat_map(row).collect()
    }
}

/// The flat indices of the slots that hold a key.
fn slots_of(table: &PageTableBuf) -> Vec<usize> {
    let size = table.page_size as usize;
    let row = |(row, ends): (usize, &[i32])| {
        let pages = &table.indices[ends[0] as usize..ends[1] as usize];
        let len = (pages.len().max(1) - 1) * size + table.last_page_len[row] as usize;
        slots(pages.iter().map(|&page| page as usize), if pages.is_empty() { 0 } else { len }, size)
    };
    table.indptr.windows(2).enumerate().flat_map(row).collect()
}

fn slots(pages: impl Iterator<Item = usize>, len: usize, size: usize) -> Vec<usize> {
    pages.flat_map(|page| page * size..(page + 1) * size).take(len).collect()
}

fn unused(all: usize, used: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut free = vec![true; all];
    used.for_each(|slot| free[slot] = false);
    (0..all).filter(|&slot| free[slot]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inputs, LevelCase, other_batch::OtherBatch};
    use attn::batch::Layout;

    fn case(layout: LayoutKind) -> Case {
        let mut case = Case { kv_layout: layout, page_size: 4, ..Case::new("full") };
        (case.qo_lens, case.kv_lens) = (Lens::List(vec![1, 2, 1]), Lens::List(vec![5, 0, 9]));
        if layout.levels() {
            let level = |groups: &[u32], lens: &[u32], page_size| LevelCase {
                groups: groups.to_vec(),
                kv_lens: Lens::List(lens.to_vec()),
                page_size,
            };
            case.levels = vec![level(&[3], &[13], Some(16)), level(&[1, 2], &[0, 6], Some(8))];
        }
        case
    }

    fn layout(case: &Case) -> (Layout, Inputs) {
        let inputs = Inputs::new(case, false).expect("sound");
        let levels = inputs.levels();
        (inputs.batch(&levels).validate().expect("sound"), inputs)
    }

    /// The number of finite rows of keys in all memory.
    fn finite(inputs: &Inputs) -> usize {
        inputs.k.to_f32().iter().filter(|x| !x.is_nan()).count() / (2 * 64)
    }

    #[test]
    fn a_block_table_is_the_page_table_in_padded_rows() {
        let (padded, inputs) = layout(&case(LayoutKind::BlockTable));
        assert_eq!(padded, layout(&case(LayoutKind::Paged)).0);
        let Keys::BlockTable(table) = &inputs.keys else { panic!("it is a block table") };
        assert_eq!((table.max_pages, table.pages.len()), (3 + SPARE_ENTRIES, 15));
        assert_eq!(table.pages.iter().filter(|page| **page == u32::MAX).count(), 15 - 5);
        assert_eq!(finite(&inputs), 14);
        let half = OtherBatch::half(&inputs).expect("there is one");
        assert_eq!(half.batch(&[]).validate().expect("sound").kv_indptr(), [0, 3, 3]);
        let reversed = OtherBatch::reversed(&inputs).expect("there is one");
        assert_eq!(reversed.batch(&[]).validate().expect("sound").kv_indptr(), [0, 9, 9, 14]);
    }

    #[test]
    fn levels_share_keys_and_all_other_slots_are_nan() {
        for kind in [LayoutKind::Cascade, LayoutKind::RaggedCascade] {
            let case = case(kind);
            let (layout, inputs) = layout(&case);
            assert_eq!(layout.kv_indptr(), [0, 18, 37, 65], "{kind:?}");
            assert_eq!(finite(&inputs) as u64, case.kv_memory_tokens(), "{kind:?}");
            assert_eq!(layout.pages().map(|pages| pages.page_size()), kind.paged().then_some(4));
            // requests 0 and 1: 7 keys of the first level, 0 and 3 of their groups, and 3 and 0 of their own
            let half = OtherBatch::half(&inputs).expect("there is one");
            let levels = half.levels();
            let half = half.batch(&levels).validate().expect("sound");
            assert_eq!((half.qo_indptr(), half.kv_indptr()), (&[0, 1, 2][..], &[0, 10, 20][..]), "{kind:?}");
            assert_eq!(half.segments().iter().map(|segment| segment.requests).collect::<Vec<_>>(), [2, 1, 1]);
            assert!(half.kv_memory_tokens() <= layout.kv_memory_tokens());
            assert!(OtherBatch::reversed(&inputs).is_err());
        }
    }
}
