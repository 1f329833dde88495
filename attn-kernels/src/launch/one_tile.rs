//! The work of a list of a single Q tile, as a parameter of decode.

use attn_core::plan::{WorkItem, WorkList};
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// The most workers of a tile whose work is a parameter.
const MAX_WORKERS: usize = 64;

/// The work of a list of a single Q tile, whose workers have one item each. A parameter arrives with the launch, and
/// the list in memory a round trip later.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct OneTileParams {
    /// Workers of a KV head; 0 where workers read the list.
    pub workers: i32,
    /// The item of the first worker. Those of the others differ in their keys and partial states.
    pub item: WorkItem,
    /// Where the keys of each worker end, and those of the next one begin.
    pub ends: [i32; 64],
}

impl Default for OneTileParams {
    fn default() -> Self {
        OneTileParams { workers: 0, item: WorkItem::default(), ends: [0; MAX_WORKERS] }
    }
}

impl OneTileParams {
    /// The work of a list, if it is of this kind; else a list in memory. A Q tile has `tile_rows` rows.
    #[must_use]
    pub fn of(work: &WorkList, tile_rows: u32) -> Self {
        let alone = work.parts.len() == 1 && work.merges.len() <= 1 && (1..=MAX_WORKERS).contains(&work.items.len());
        let each = alone && work.workers.iter().copied().eq(0..=work.items.len() as i32);
        if !each {
            return Self::default();
        }
        let mut params = OneTileParams { workers: work.items.len() as i32, item: work.items[0], ..Self::default() };
        for (end, item) in params.ends.iter_mut().zip(&work.items) {
            *end = item.kv_end;
        }
        let same = (0..work.items.len()).all(|worker| params.item_of(worker, tile_rows) == work.items[worker]);
        if same { params } else { Self::default() }
    }

    /// The item of a worker, as the kernel makes it.
    fn item_of(&self, worker: usize, tile_rows: u32) -> WorkItem {
        let partial = match self.item.partial {
            ..0 => self.item.partial,
            first => first + (worker as u32 * tile_rows) as i32,
        };
        let kv_begin = worker.checked_sub(1).map_or(self.item.kv_begin, |before| self.ends[before]);
        WorkItem { kv_begin, kv_end: self.ends[worker], partial, ..self.item }
    }
}

#[cfg(test)]
mod tests {
    use attn_core::{
        batch::{Batch, indptr},
        expr::Variant,
        plan::{Cost, ListRule, PlanRule, PlanScratch, Schedule},
        spec::Heads,
    };

    use super::*;

    const ROWS: u32 = 8;

    fn list(qo: &[u32], kv: &[u32], workers: u32) -> WorkList {
        let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
        let layout = Batch::ragged(&qo, &kv).validate().expect("sound");
        let (cost, schedule) = (Cost::BLOCKS, Schedule::StreamK);
        let rule = PlanRule { tile_rows: ROWS, kv_align: 64, min_span: 128, workers, cost, schedule };
        let mut work = WorkList::default();
        let heads = Heads { qo: 32, kv: 8, head_dim: 128 };
        let of = (&mut PlanScratch::default(), &Variant::full(), ListRule::Flat(rule));
        work.rebuild_for(of.0, of.1, &[], &layout, heads, &of.2).expect("a plan");
        work
    }

    #[test]
    fn workers_of_one_tile_have_the_items_of_the_list() {
        for (keys, workers, want) in [(1, 49, 1), (128, 49, 1), (1024, 49, 8), (1000, 6, 6), (32768, 49, 49)] {
            let work = list(&[1], &[keys], workers);
            let params = OneTileParams::of(&work, ROWS);
            assert_eq!(params.workers, want, "{keys} keys");
            let items: Vec<_> = (0..want as usize).map(|worker| params.item_of(worker, ROWS)).collect();
            assert_eq!(items, work.items);
        }
    }

    #[test]
    fn other_lists_are_in_memory() {
        let others = [
            list(&[1, 1], &[100, 100], 49),
            list(&[1, 1], &[100, 0], 49),
            // two Q tiles
            list(&[3], &[1000], 49),
            // more workers than there is room for
            list(&[1], &[65536], 100),
            list(&[0], &[100], 49),
        ];
        for work in others {
            assert_eq!(OneTileParams::of(&work, ROWS), OneTileParams::default());
        }
    }
}
