//! The launches of a run mode.

use attn::{DecodeBackend, PrefillBackend, Variant};
use attn_core::batch::PageTableBuf;

use crate::inputs::Inputs;
use crate::keys::Keys;
use crate::{Case, LayoutKind, Lens, ListsOf, RunMode, TestError, case_variant};

/// The most rows (tokens times query heads of a KV head) of a request that counts as decode.
const DECODE_ROWS: u32 = 16;

/// One launch of a run mode.
pub(super) struct Part {
    pub(super) case: Case,
    pub(super) variant: Variant,
    pub(super) inputs: Inputs,
}

impl RunMode {
    /// The case of each launch, in order. `Flat` and `Pages` replace the keys of its inputs too.
    pub(super) fn cases(self, case: &Case) -> Result<Vec<Case>, TestError> {
        let auto = || "auto".to_owned();
        let in_kernel = |kernel: &str, prefill| vec![Case { kernel: kernel.to_owned(), prefill, ..case.clone() }];
        let on = |backend| vec![Case { decode: Some(backend), ..case.clone() }];
        Ok(match self {
            RunMode::AsIs => vec![case.clone()],
            RunMode::Auto => vec![Case { kernel: auto(), ..case.clone() }],
            RunMode::Mixed => in_kernel("mixed", PrefillBackend::default()),
            RunMode::Sm80Mixed => in_kernel("mixed", PrefillBackend::Sm80),
            RunMode::Ragged => vec![Case { kv_layout: LayoutKind::Ragged, ..case.clone() }],
            RunMode::Flat if case.kernel == "mixed" => vec![Case { kernel: auto(), ..case.clone() }],
            RunMode::Flat => vec![case.clone()],
            RunMode::Pages => vec![Case { variant: "full".to_owned(), sparse: None, ..case.clone() }],
            RunMode::TensorCores => on(DecodeBackend::TensorCores),
            RunMode::CudaCores => on(DecodeBackend::CudaCores),
            RunMode::Decode => in_kernel("decode", case.prefill),
            RunMode::Prefill => in_kernel("prefill", PrefillBackend::Sm90),
            RunMode::Resident => in_kernel("prefill", PrefillBackend::Sm90Resident),
            RunMode::Sequential => {
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

    /// The launches, in order.
    pub(super) fn parts(self, case: &Case) -> Result<Vec<Part>, TestError> {
        let part = |of_launch| {
            let part = Part::of(of_launch)?;
            match self {
                RunMode::Flat => flat(part),
                RunMode::Pages => pages(case, part),
                _ => Ok(part),
            }
        };
        self.cases(case)?.into_iter().map(part).collect()
    }
}

impl Part {
    fn of(case: Case) -> Result<Self, TestError> {
        let variant = case_variant(&case)?;
        // refused before large tensors are made
        case.dtypes()?;
        let inputs = Inputs::new(&case, true)?;
        Ok(Part { case, variant, inputs })
    }
}

fn bad(why: &str) -> TestError {
    TestError::Field { field: "ours_also", why: why.to_owned() }
}

/// Some of the requests, in one kernel.
fn subset(case: &Case, requests: &[usize], kernel: &str) -> Result<Case, TestError> {
    if case.kv_layout.levels() || case.sparse.is_some() {
        return Err(bad("sequential: requests do not stand alone"));
    }
    let (qo, kv) = (case.qo_lens.to_vec(), case.kv_lens.to_vec());
    let of = |lens: &[u32]| Lens::List(requests.iter().map(|&i| lens[i]).collect());
    Ok(Case { kernel: kernel.to_owned(), qo_lens: of(&qo), kv_lens: of(&kv), ..case.clone() })
}

/// The cascade without levels, on the same tensors.
fn flat(mut part: Part) -> Result<Part, TestError> {
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
fn pages(case: &Case, mut part: Part) -> Result<Part, TestError> {
    let sparse = case.sparse.as_ref().ok_or_else(|| bad("pages: the case reads all of them"))?;
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
