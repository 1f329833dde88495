//! Forms of a case: other ways to have the same result, which a race has beside it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Variant;
use crate::batch::PageTableBuf;

use super::inputs::Inputs;
use super::kept_pages::ListsOf;
use super::keys::Keys;
use super::{Case, LayoutKind, Lens, TestError, case_variant};

/// Rows (tokens by query heads of a KV head) up to which a request counts as decoding.
const DECODE_ROWS: u32 = 16;

/// A way to run a case. A case file asks for them with `"ours_also": ["flat"]`, beside the case as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// As the case says.
    AsIs,
    /// With the kernel that is chosen when none is asked for.
    Auto,
    /// A cascade as a batch without levels: each request with all of its pages, which are the same pages in memory.
    Flat,
    /// Requests of many rows by prefill, and then those of few by decode: two plans, one graph.
    Sequential,
    /// The same lengths with ragged keys.
    Ragged,
    /// Chosen pages as a shorter page table, and no list. Heads have to share them.
    Pages,
}

/// What one launch of a form computes.
pub(super) struct Part {
    pub(super) case: Case,
    pub(super) variant: Variant,
    pub(super) inputs: Inputs,
}

impl Form {
    /// As it is written in case files; the case as it is is `attn`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Form::AsIs => "attn",
            Form::Auto => "auto",
            Form::Flat => "flat",
            Form::Sequential => "sequential",
            Form::Ragged => "ragged",
            Form::Pages => "pages",
        }
    }

    /// What is launched, in order.
    pub(super) fn parts(self, case: &Case) -> Result<Vec<Part>, TestError> {
        let auto = || "auto".to_owned();
        Ok(match self {
            Form::AsIs => vec![Part::of(case.clone())?],
            Form::Auto => vec![Part::of(Case { kernel: auto(), ..case.clone() })?],
            Form::Ragged => vec![Part::of(Case { kv_layout: LayoutKind::Ragged, ..case.clone() })?],
            Form::Flat => vec![flat(case)?],
            Form::Pages => vec![pages(case)?],
            Form::Sequential => {
                let group = case.heads().group().max(1);
                let lens = case.qo_lens.to_vec();
                let (few, many): (Vec<usize>, Vec<usize>) =
                    (0..lens.len()).partition(|&i| lens[i].saturating_mul(group) <= DECODE_ROWS);
                if few.is_empty() || many.is_empty() {
                    return Err(bad("sequential: all requests are of one kind"));
                }
                vec![subset(case, &many, "prefill")?, subset(case, &few, "decode")?]
            }
        })
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Part {
    fn of(case: Case) -> Result<Self, TestError> {
        let variant = case_variant(&case)?;
        // refused before anything large is made
        case.dtypes()?;
        let inputs = Inputs::new(&case, true)?;
        Ok(Part { case, variant, inputs })
    }
}

fn bad(why: &str) -> TestError {
    TestError::Field { field: "ours_also", why: why.to_owned() }
}

/// Some of the requests, by one kernel.
fn subset(case: &Case, requests: &[usize], kernel: &str) -> Result<Part, TestError> {
    if case.kv_layout.levels() || case.sparse.is_some() {
        return Err(bad("sequential: requests do not stand alone"));
    }
    let (qo, kv) = (case.qo_lens.to_vec(), case.kv_lens.to_vec());
    let of = |lens: &[u32]| Lens::List(requests.iter().map(|&i| lens[i]).collect());
    Part::of(Case { kernel: kernel.to_owned(), qo_lens: of(&qo), kv_lens: of(&kv), ..case.clone() })
}

/// A cascade without levels, on the same tensors.
fn flat(case: &Case) -> Result<Part, TestError> {
    let kernel = if case.kernel == "mixed" { "auto".to_owned() } else { case.kernel.clone() };
    let mut part = Part::of(Case { kernel, ..case.clone() })?;
    let layout = {
        let levels = part.inputs.levels();
        part.inputs.batch(&levels).validate()?
    };
    let flat = layout.flattened().ok_or_else(|| bad("flat: a level ends inside of a page, or keys are ragged"))?;
    let table = flat.pages().ok_or_else(|| bad("flat: keys are not in pages"))?;
    let size = table.page_size();
    let last = |request: usize| ((flat.kv_len(request) as u32 + size - 1) % size + 1) as i32;
    part.inputs.keys = Keys::Paged(PageTableBuf {
        indptr: table.indptr().to_vec(),
        indices: table.indices().to_vec(),
        last_page_len: (0..flat.batch()).map(last).collect(),
        page_size: size,
        num_pages: part.inputs.kv_shape[0] as u32,
    });
    Ok(part)
}

/// The pages of the lists alone, on the same tensors.
fn pages(case: &Case) -> Result<Part, TestError> {
    let sparse = case.sparse.as_ref().ok_or_else(|| bad("pages: the case reads all of them"))?;
    let mut part = Part::of(Case { variant: "full".to_owned(), sparse: None, ..case.clone() })?;
    let Keys::Paged(table) = &part.inputs.keys else { return Err(bad("pages: keys are not in pages")) };
    if case_variant(case)?.parts().count() != 1 || sparse.heads == ListsOf::Own {
        return Err(bad("pages: every KV head reads the same pages, and the list is all there is of the variant"));
    }
    if sparse.page != table.page_size {
        return Err(bad("pages: those of the list are not those of the pool"));
    }
    let (mut lens, mut indices) = (Vec::new(), Vec::new());
    for ((request, keys), lists) in case.kv_lens.to_vec().into_iter().enumerate().zip(sparse.lists(case)) {
        let first = table.indptr[request] as usize;
        let chosen = lists.first().map_or(&[][..], Vec::as_slice);
        lens.push(chosen.iter().map(|&page| sparse.page.min(keys - page * sparse.page)).sum());
        indices.extend(chosen.iter().map(|&page| table.indices[first + page as usize]));
    }
    let mut next = indices.into_iter();
    let shorter = PageTableBuf::from_lens(&lens, table.page_size, table.num_pages, || next.next().unwrap_or_default());
    part.inputs.keys = Keys::Paged(shorter);
    Ok(part)
}
