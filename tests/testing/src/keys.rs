//! The lengths and pages of a case's keys, as owned arrays of a batch.

use attn::Batch;
use attn_core::batch::{BatchError, BlockTable, CascadeLevel, CascadeLevelKv, PageTableBuf, indptr, words};

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
    /// `[requests + 1]` prefix sums of key counts; those of a level may begin above 0.
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
    /// Ragged keys or a page table, with a row for each group.
    keys: Keys,
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
                levels.push(LevelBuf { qo_indptr: queries_of(groups), keys: Keys::Paged(table) });
            }
        } else {
            // the innermost level is first in memory
            let mut begin = 0;
            for (groups, lens, _) in all.iter().rev() {
                let mut ends = indptr(&lens.to_vec())?;
                ends.iter_mut().for_each(|end| *end += begin);
                begin = ends.last().copied().unwrap_or(begin) + SPARE_TOKENS;
                levels.push(LevelBuf { qo_indptr: queries_of(groups), keys: Keys::Ragged(ends) });
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
            Keys::Levels(levels) => levels.iter().any(|level| level.keys.paged()),
        }
    }

    /// Extents of the tensors of keys, (pages, slots) or (tokens), and the flat indices of slots or tokens without a
    /// key.
    pub(super) fn memory(&self, case: &Case) -> (Vec<usize>, Vec<usize>) {
        let (all, slots) = (self.extent(), case.page_size.max(1) as usize);
        let mut free = vec![true; all];
        self.used().into_iter().for_each(|slot| free[slot] = false);
        let outer = if self.paged() { vec![all / slots, slots] } else { vec![all] };
        (outer, (0..all).filter(|&slot| free[slot]).collect())
    }

    /// The number of slots or tokens.
    fn extent(&self) -> usize {
        match self {
            Keys::Ragged(ends) => ends.last().map_or(0, |&end| end as usize),
            Keys::Paged(table) => table.num_pages as usize * table.page_size as usize,
            Keys::BlockTable(table) => table.num_pages as usize * table.page_size as usize,
            Keys::Levels(levels) => levels.iter().map(|level| level.keys.extent()).max().unwrap_or(0),
        }
    }

    /// The flat indices of the slots or tokens that hold a key.
    fn used(&self) -> Vec<usize> {
        match self {
            Keys::Ragged(ends) => (ends[0] as usize..ends[ends.len() - 1] as usize).collect(),
            Keys::Paged(table) => {
                let rows = (0..table.last_page_len.len()).map(|row| row_of(table, row));
                rows.flat_map(|(pages, len)| slots(pages, len, table.page_size)).collect()
            }
            Keys::BlockTable(table) => {
                let rows = table.kv_lens.iter().enumerate();
                rows.flat_map(|(row, &len)| slots(table.row(row, len), len, table.page_size)).collect()
            }
            Keys::Levels(levels) => levels.iter().flat_map(|level| level.keys.used()).collect(),
        }
    }

    /// Some of the rows, each with the keys that `keep` leaves of it. Not for a cascade.
    pub(super) fn kept(&self, rows: &[usize], keep: fn(u32) -> u32) -> Result<Self, TestError> {
        Ok(match self {
            Keys::Ragged(ends) => {
                let lens: Vec<u32> = rows.iter().map(|&row| keep((ends[row + 1] - ends[row]) as u32)).collect();
                Keys::Ragged(indptr(&lens)?.into_iter().map(|end| ends[0] + end).collect())
            }
            Keys::Paged(table) => {
                let size = table.page_size;
                let kept = rows.iter().map(|&row| row_of(table, row)).map(|(pages, len)| (pages, keep(len)));
                let (pages, lens): (Vec<_>, Vec<u32>) =
                    kept.map(|(pages, len)| (&pages[..len.div_ceil(size) as usize], len)).unzip();
                let mut pages = pages.into_iter().flatten().copied();
                Keys::Paged(PageTableBuf::from_lens(&lens, size, table.num_pages, || pages.next().unwrap_or(0)))
            }
            Keys::BlockTable(table) => {
                let kept = rows.iter().map(|&row| (row, keep(table.kv_lens[row])));
                let (rows, lens): (Vec<_>, Vec<u32>) = kept.map(|(row, len)| (table.row(row, len), len)).unzip();
                Keys::BlockTable(BlockTableBuf::of_rows(&rows, &lens, table.page_size, table.num_pages))
            }
            Keys::Levels(_) => return Err(BatchError::LevelsInCapacity.into()),
        })
    }

    /// The levels of a cascade.
    pub(super) fn levels(&self) -> Vec<CascadeLevel<'_>> {
        let Keys::Levels(levels) = self else { return Vec::new() };
        levels.iter().filter_map(LevelBuf::level).collect()
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
    fn level(&self) -> Option<CascadeLevel<'_>> {
        let kv = match &self.keys {
            Keys::Ragged(ends) => CascadeLevelKv::Ragged(ends),
            Keys::Paged(table) => CascadeLevelKv::Paged(table.table()),
            Keys::BlockTable(_) | Keys::Levels(_) => return None,
        };
        Some(CascadeLevel { qo_indptr: &self.qo_indptr, kv })
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
        let keys = self.keys.kept(&(0..ends.len()).collect::<Vec<_>>(), keep)?;
        Ok(LevelBuf { qo_indptr, keys })
    }
}

impl BlockTableBuf {
    /// The same table as padded rows.
    fn of(table: &PageTableBuf, kv_lens: &[u32]) -> Self {
        let rows: Vec<&[i32]> = (0..kv_lens.len()).map(|row| row_of(table, row).0).collect();
        Self::of_rows(&rows, kv_lens, table.page_size, table.num_pages)
    }

    fn of_rows(rows: &[&[i32]], kv_lens: &[u32], page_size: u32, num_pages: u32) -> Self {
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

    /// The pages of the first `len` keys of a row.
    fn row(&self, row: usize, len: u32) -> &[i32] {
        &words(&self.pages)[row * self.max_pages..][..len.div_ceil(self.page_size) as usize]
    }
}

/// The pages of a row, and the number of its keys.
fn row_of(table: &PageTableBuf, row: usize) -> (&[i32], u32) {
    let pages = &table.indices[table.indptr[row] as usize..table.indptr[row + 1] as usize];
    let full = pages.len().saturating_sub(1) as u32 * table.page_size;
    (pages, full + table.last_page_len[row] as u32)
}

/// The flat indices of the first `len` slots in pages.
fn slots(pages: &[i32], len: u32, size: u32) -> impl Iterator<Item = usize> {
    let size = size as usize;
    pages.iter().flat_map(move |&page| page as usize * size..(page as usize + 1) * size).take(len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inputs, LevelCase, other_batch::OtherBatch};
    use attn_core::batch::Layout;

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
