//! C++ types.

use crate::types::{Ty, Types};

/// The C++ type, where the Rust type is known.
pub(crate) fn spelled(ty: &Ty, types: &Types) -> Option<String> {
    Some(match types.settled(ty) {
        Ty::F32 => "float".into(),
        // indices of arrays are proven to fit an int
        Ty::I32 | Ty::Usize => "int".into(),
        Ty::U32 => "u32".into(),
        Ty::U8 => "u8".into(),
        Ty::U64 => "u64".into(),
        Ty::Bool => "bool".into(),
        Ty::Unit => "void".into(),
        Ty::RowIndex => "RowIndex".into(),
        Ty::LogitIndex => "LogitIndex".into(),
        Ty::KvIndex => "KvIndex".into(),
        Ty::RowState => "RowState".into(),
        Ty::QueryTile => "QueryTile".into(),
        Ty::Row => "R&".into(),
        Ty::Device(name) => name,
        Ty::Tuple(items) if items == [Ty::F32, Ty::F32] => "Pair".into(),
        Ty::Tuple(items) => {
            let items: Option<Vec<String>> = items.iter().map(|t| spelled(t, types)).collect();
            let items = items?;
            format!("Tuple{}<{}>", items.len(), items.join(", "))
        }
        Ty::Array(elem, len) => format!("Array<{}, {len}>", spelled(&elem, types)?),
        Ty::Var(_) => return None,
    })
}
