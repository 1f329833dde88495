//! Cases of variants with key lists of several tiles.

use attn_core::Variant;
use attn_testing::{Case, KeptPages, LayoutKind, Lens, ListsOf};
use attn_variants::{BlockSparse, block_sparse::Bsr};

const QO_LENS: [u32; 4] = [70, 0, 3, 45];
const KV_LENS: [u32; 4] = [600, 9, 37, 300];

/// Lists of pages, of each KV head its own or of all, and blocks of a matrix, of which a row of blocks ends
/// within a tile.
#[must_use]
pub fn key_lists(kernel: &str) -> Vec<Case> {
    let case = |variant: String, dtype: &str, head_dim, page_size: u32| Case {
        kernel: kernel.to_owned(),
        dtype: dtype.to_owned(),
        head_dim,
        // 0: ragged
        kv_layout: if page_size == 0 { LayoutKind::Ragged } else { LayoutKind::Paged },
        page_size: page_size.max(1),
        qo_lens: Lens::List(QO_LENS.to_vec()),
        kv_lens: Lens::List(KV_LENS.to_vec()),
        ..Case::new(variant)
    };
    let pages = |variant, page, heads, case: Case| Case {
        variant: format!("{variant}page_list(page_size={page}, max_pages={})", 600u32.div_ceil(page)),
        sparse: Some(KeptPages { page, keep: 0.5, heads }),
        ..case
    };
    vec![
        pages("causal + ", 16, ListsOf::Own, case(String::new(), "bf16", 64, 0)),
        pages("rope + ", 5, ListsOf::Shared, case(String::new(), "f16", 128, 16)),
        // 160 PackGQA rows of each KV head share a list
        Case { qo_heads: 16, ..case(format!("causal + alibi + {}", matrix(20, 8)), "bf16", 64, 5) },
        // blocks of whole TMA boxes: of ragged keys without a mask, of keys that are preprocessed beside values in
        // pages, and of boxes that divide neither a block nor a tile of 80 keys
        case(matrix(64, 64).to_string(), "bf16", 128, 0),
        pages("rope + ", 32, ListsOf::Own, case(String::new(), "f16", 128, 16)),
        case(format!("causal + {}", matrix(20, 48)), "bf16", 256, 48),
        case(format!("causal + {}", matrix(20, 40)), "bf16", 256, 0),
        // ranges of keys that begin within a list
        Case { fixed_split_size: Some(128), ..pages("", 16, ListsOf::Own, case(String::new(), "bf16", 128, 16)) },
        // logits that exceed a lazy max by far
        Case { q_std: Some(300.0), ..pages("causal + ", 32, ListsOf::Own, case(String::new(), "bf16", 128, 64)) },
    ]
}

/// Three of four blocks of `q_block` queries and `kv_block` keys.
fn matrix(q_block: u32, kv_block: u32) -> Variant {
    let of_request = |(qo_len, kv_len): (u32, u32)| {
        let columns = kv_len.div_ceil(kv_block);
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in 0..qo_len.div_ceil(q_block) {
            indices.extend((0..columns).filter(|column| (5 * row + column) % 4 != 3).map(|column| column as i32));
            indptr.push(indices.len() as i32);
        }
        (columns as usize, indptr, indices)
    };
    let matrices: Vec<_> = QO_LENS.into_iter().zip(KV_LENS).map(of_request).collect();
    let block = [q_block as usize, kv_block as usize];
    let requests: Vec<[Bsr<'_>; 1]> =
        matrices.iter().map(|(columns, indptr, indices)| [Bsr { block, columns: *columns, indptr, indices }]).collect();
    let requests: Vec<&[Bsr<'_>]> = requests.iter().map(<[_; 1]>::as_slice).collect();
    BlockSparse::from_bsr(&requests).expect("each block once").into()
}
