//! Latent caches (MLA), whose values are the first elements of the keys: every expression of the serving grid, in
//! prefill and in the kernel that is selected.

use attn::HeadDimVo;

use super::super::cells::{Lengths, set_lens};
use super::lists;
use super::variants::{Needs, ROWS};
use crate::{Case, LayoutKind, Order, random::Random};

/// Query heads of the one KV head.
const HEADS: [u32; 7] = [128, 16, 5, 64, 8, 40, 100];
/// Page size (0: ragged) and order.
const PAGES: [(u32, Order); 6] =
    [(64, Order::Nhd), (16, Order::Nhd), (1, Order::Nhd), (5, Order::Hnd), (0, Order::Nhd), (128, Order::Nhd)];
/// The first two are short, for tables over queries and keys.
const LENS: [Lengths; 8] = [
    (&[9, 33], &[300, 33]),
    (&[70], &[70]),
    (&[1, 1, 1, 1], &[1, 700, 65, 4096]),
    (&[2, 1, 0], &[2049, 33, 9]),
    (&[1, 20, 0], &[700, 65, 4]),
    (&[1, 1, 1], &[255, 3000, 17]),
    (&[4, 4], &[1000, 517]),
    (&[1], &[9000]),
];

/// The grid. The indices shift from round to round, so that values of different lists meet.
#[must_use]
pub fn latent() -> Vec<Case> {
    // `hadamard` is refused for rows of 576
    let rows = ROWS.iter().filter(|row| !row.expr.contains("hadamard"));
    let rows = rows.flat_map(|row| ["prefill", "auto"].map(|kernel| (row, kernel)));
    let case = |(number, (row, kernel)): (usize, (&super::Row, &str))| {
        let mut case = Case::new(row.expr);
        kernel.clone_into(&mut case.kernel);
        ["bf16", "f16"][number / 2 % 2].clone_into(&mut case.dtype);
        let keys = if number % 11 == 3 { 512 } else { 576 };
        (case.head_dim, case.head_dim_vo) = (keys, HeadDimVo::SharedWithKeys(512));
        (case.qo_heads, case.kv_heads) = (HEADS[(3 * number + number / 7) % HEADS.len()], 1);
        let (page_size, order) = PAGES[(number + number / 6) % PAGES.len()];
        case.page_order = order;
        if page_size > 0 {
            (case.kv_layout, case.page_size) = (LayoutKind::Paged, page_size);
        }
        let short = matches!(row.needs, Needs::Short | Needs::Lists);
        set_lens(&mut case, &LENS[(5 * number + number / 8) % if short { 2 } else { LENS.len() }]);
        if number % 9 == 7 {
            (case.kv_dtype, case.kv_scale) = (Some("e4m3".to_owned()), Some(0.375));
        }
        case.graph = number.is_multiple_of(3);
        case.variant = lists::written(row.expr, &case, &mut Random::new(number as u64, 10));
        case
    };
    super::numbered(rows.enumerate().map(case).collect(), "latent")
}
