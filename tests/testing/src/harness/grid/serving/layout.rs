//! The layout of a case in words.

use crate::{Case, LayoutKind, Order, Pool};

/// The layout of the keys of a case, for the name of the case.
pub(in crate::harness::grid) fn layout_name(case: &Case) -> String {
    let layout = match case.kv_layout {
        LayoutKind::Ragged => "ragged".to_owned(),
        LayoutKind::RaggedCascade => format!("{} ragged levels", 1 + case.levels.len()),
        LayoutKind::Paged => format!("pages of {}", case.page_size),
        LayoutKind::BlockTable => format!("block table of {}", case.page_size),
        LayoutKind::Cascade => format!("{} levels of {}", 1 + case.levels.len(), case.page_size),
    };
    let order = if case.page_order == Order::Nhd { "NHD" } else { "HND" };
    let pool = match case.pool {
        Pool::Split => "",
        Pool::Fused => " fused",
        Pool::Padded => " padded",
        Pool::Packed => " packed",
    };
    format!("{layout} {order}{pool}")
}
