//! Tables as engines make them: documents, trees, block maps, windows of each token. A case says which table a tensor
//! parameter holds ([`Case::tables`](crate::Case::tables)); those of stock variants are known ([`of`]).
//!
//! A table depends on the lengths and the seed of the case. Two tables of one case agree: documents of queries and of
//! keys are the same documents.

mod cuts;
mod lengths;
mod maps;

use super::{Case, Table};
use cuts::Cuts;
use lengths::{Lengths, Token};

/// The tables of stock variants: variant, parameter, table.
const STOCK: [(&str, &str, Table); 27] = [
    ("documents", "of_query", Table::QueryDocuments),
    ("documents", "of_key", Table::KeyDocuments),
    ("causal_documents", "start", Table::QueryDocumentStarts),
    ("packed_documents", "start_of_query", Table::QueryDocumentStarts),
    ("packed_documents", "start_of_key", Table::KeyDocumentStarts),
    ("document_spans", "start", Table::WindowStarts),
    ("document_spans", "end", Table::WindowEnds),
    ("image_spans", "of_query", Table::QueryImages),
    ("image_spans", "of_key", Table::KeyImages),
    ("flash_mask", "lower_start", Table::KeyDocumentEnds),
    ("flash_mask", "lower_end", Table::KvLens),
    ("flash_mask", "upper_start", Table::Zeros),
    ("flash_mask", "upper_end", Table::KeysBeforeDiagonal),
    ("global_window", "of_query", Table::GlobalQueries),
    ("global_window", "of_key", Table::GlobalKeys),
    ("prefix_lm", "prefix", Table::Prefixes),
    ("multi_item", "prefix_len", Table::Prefixes),
    ("multi_item", "item_start", Table::ItemStarts),
    ("shared_prefix", "offsets", Table::SharedOffsets),
    ("shared_prefix", "prefix_of", Table::SharedPrefixes),
    ("shared_prefix", "of_query", Table::SharedDocuments),
    ("tree", "ancestors", Table::Ancestors),
    ("block_mask", "blocks", Table::Blocks),
    ("custom_mask", "offset", Table::MaskOffsets),
    ("positions", "of_query", Table::QueryPositions),
    ("positions", "of_key", Table::KeyPositions),
    ("interleaved_positions", "of_query", Table::QueryPositions),
];

/// The table of a parameter: as the case says, or as is known of the stock variant.
pub(super) fn of(case: &Case, variant: &str, field: &str) -> Option<Table> {
    let named = case.tables.get(&format!("{variant}.{field}")).copied();
    named.or_else(|| STOCK.iter().find(|(v, f, _)| (*v, *f) == (variant, field)).map(|(.., table)| *table))
}

impl Table {
    /// Its elements for a tensor of this shape, bools as 0 and 1; `None` if the shape is not that of the table.
    pub(super) fn elements(self, case: &Case, shape: &[i64]) -> Option<Vec<i64>> {
        let batch = Lengths { qo_lens: case.qo_lens.to_vec(), kv_lens: case.all_kv_lens(), seed: case.seed };
        let all = self.made(&batch, shape)?;
        (all.len() as i64 == shape.iter().product::<i64>()).then_some(all)
    }

    fn made(self, batch: &Lengths, shape: &[i64]) -> Option<Vec<i64>> {
        let (documents, images) = (batch.cuts(Cuts::documents), batch.cuts(Cuts::images));
        // documents of all requests are numbered together, with a gap between requests
        let before: Vec<i64> =
            documents.iter().scan(0, |sum, cuts| Some(std::mem::replace(sum, *sum + cuts.len() as i64 + 1))).collect();
        let document = |at: &Token| before[at.request] + documents[at.request].index(at.pos) as i64;
        let span = |at: &Token| documents[at.request].span(at.pos);
        let image = |at: &Token| match images[at.request].index(at.pos) {
            text if text % 2 == 0 => -1,
            image => image as i64 / 2,
        };
        let global = |at: &Token| i64::from(at.pos < 4 || batch.random(at, 3000).below(64) == 0);
        let window = |at: &Token| {
            let mut random = batch.random(at, 4000);
            let (left, right) = (random.below(500) as i64, random.below(100) as i64);
            if random.below(16) == 0 { [at.pos, at.pos] } else { [(at.pos - left).max(0), at.pos + 1 + right] }
        };
        let position = |at: &Token| documents[at.request].index(at.pos) as i64 * 3 + at.pos;
        Some(match self {
            Table::QueryDocuments => batch.queries(document),
            Table::KeyDocuments => batch.keys(document),
            Table::QueryDocumentStarts => batch.queries(|at| span(at)[0]),
            Table::KeyDocumentStarts => batch.keys(|at| span(at)[0]),
            Table::KeyDocumentEnds => batch.keys(|at| span(at)[1]),
            Table::KeysBeforeDiagonal => batch.keys(|at| if document(at) % 2 == 0 { at.pos } else { span(at)[0] }),
            Table::KvLens => batch.keys(|at| i64::from(batch.kv_lens[at.request])),
            Table::Zeros => batch.keys(|_| 0),
            Table::WindowStarts => batch.queries(|at| window(at)[0]),
            Table::WindowEnds => batch.queries(|at| window(at)[1]),
            Table::QueryImages => batch.queries(image),
            Table::KeyImages => batch.keys(image),
            Table::GlobalQueries => batch.queries(global),
            Table::GlobalKeys => batch.keys(global),
            Table::Prefixes => (0..batch.requests()).map(|request| batch.prefix(request)).collect(),
            Table::ItemStarts => batch.queries(|at| span(at)[0].max(batch.prefix(at.request))),
            Table::QueryPositions => batch.queries(position),
            Table::KeyPositions => batch.keys(position),
            Table::SharedOffsets => maps::shared_offsets(batch, shape.first()? - 1),
            Table::SharedPrefixes => maps::shared_prefixes(*shape.first()?),
            Table::SharedDocuments => batch.queries(|at| maps::shared_document(batch, at.pos)),
            Table::Ancestors => maps::ancestors(batch, *shape.get(1)? as usize),
            Table::Blocks => maps::blocks(batch, shape),
            Table::MaskOffsets => maps::mask_offsets(batch),
        })
    }
}

#[cfg(all(test, feature = "harness"))]
mod tests;
