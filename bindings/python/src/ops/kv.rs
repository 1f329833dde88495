//! Pools of keys and values, and page tables.

use attn::PageOrder;
use attn::ops::{KvMut, KvRef, KvSidesMut, PageTableRows};

use crate::error::Failure;
use crate::keywords::{Keywords, Memory, needed};
use crate::kv_layout::KvLayout;
use crate::tensor::ANY;

/// The names of keys, of values, and of the side data of both.
pub(crate) type Names = [&'static str; 4];
pub(crate) const POOLS: Names = ["k_pool", "v_pool", "k_side", "v_side"];

/// The layouts of pools, by their names.
const LAYOUTS: [(&str, KvLayout); 5] = [
    ("NHD", KvLayout::Nhd),
    ("HND", KvLayout::Hnd),
    ("fused NHD", KvLayout::Fused(PageOrder::Nhd)),
    ("fused HND", KvLayout::Fused(PageOrder::Hnd)),
    ("latent", KvLayout::Latent),
];

/// Values where the layout has them, and none where it has not.
fn values<T>(layout: KvLayout, values: Option<T>, [k, v, ..]: Names) -> Result<Option<T>, Failure> {
    match (layout.has_values(), &values) {
        (true, None) => Err(Failure::tensor(format!("{v} is None; in this layout values have a tensor of their own"))),
        (false, Some(_)) => {
            Err(Failure::tensor(format!("{v} is given; in this layout values are in {k}, and {v} is None")))
        }
        _ => Ok(values),
    }
}

impl<'py> Keywords<'py> {
    /// The layout of pools; NHD if it is left out.
    pub(crate) fn layout(&mut self, name: &'static str) -> Result<KvLayout, Failure> {
        self.word(name, &LAYOUTS)
    }

    /// Keys and values to read.
    pub(crate) fn kv(&mut self, names: Names, layout: KvLayout, memory: Memory) -> Result<KvRef<'py>, Failure> {
        let k = needed(self.read(names[0], memory)?, names[0])?;
        let v = values(layout, self.read(names[1], memory)?, names)?;
        let (k_side, v_side) = (self.read(names[2], memory)?, self.read(names[3], memory)?);
        let kv = match (layout, v) {
            (KvLayout::Hnd, Some(v)) => KvRef::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), _) => KvRef::fused(k, order)?,
            (_, Some(v)) => KvRef::new(k, v),
            (_, None) => KvRef::latent(k),
        };
        Ok(kv.with_sides(layout.sides(k_side, v_side)?))
    }

    /// Keys and values to write.
    pub(crate) fn kv_mut(&mut self, names: Names, layout: KvLayout, memory: Memory) -> Result<KvMut<'py>, Failure> {
        let k = needed(self.write(names[0], memory)?, names[0])?;
        let v = values(layout, self.write(names[1], memory)?, names)?;
        let (k_side, v_side) = (self.write(names[2], memory)?, self.write(names[3], memory)?);
        let kv = match (layout, v) {
            (KvLayout::Hnd, Some(v)) => KvMut::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), _) => KvMut::fused(k, order)?,
            (_, Some(v)) => KvMut::new(k, v),
            (_, None) => KvMut::latent(k),
        };
        let sides = match (layout, k_side) {
            (KvLayout::Hnd, k) => KvSidesMut::paged_in(k, v_side, PageOrder::Hnd)?,
            (KvLayout::Fused(order), Some(pool)) => KvSidesMut::fused(pool, order)?,
            (_, k) => KvSidesMut::new(k, v_side),
        };
        Ok(kv.with_sides(sides))
    }

    /// The pages of requests, if they are given: a block table, or compressed rows.
    pub(crate) fn page_table(&mut self) -> Result<Option<PageTableRows<'py>>, Failure> {
        let padded = self.array("block_table", &[ANY, ANY])?;
        let (indptr, pages) = (self.array("page_indptr", &[ANY])?, self.array("page_indices", &[ANY])?);
        match (padded, indptr, pages) {
            (None, None, None) => Ok(None),
            (Some(pages), None, None) => {
                Ok(Some(PageTableRows::Padded { pages, max_pages: self.length("block_table", 1) }))
            }
            (None, Some(indptr), Some(pages)) => Ok(Some(PageTableRows::Csr { indptr, pages })),
            _ => {
                let possible = "`block_table` alone, or `page_indptr` with `page_indices`";
                Err(Failure::argument(format!("pages are given by {possible}, and by nothing else")))
            }
        }
    }
}
