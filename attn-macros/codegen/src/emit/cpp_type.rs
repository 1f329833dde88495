//! The C++ spelling of types of the language.

use crate::types::{Plane, Ty, Types};

/// The C++ type, or `auto`.
pub(crate) fn spelled_or_auto(ty: &Ty, types: &Types) -> String {
    spelled(ty, types).unwrap_or_else(|| "auto".into())
}

/// The C++ type, where the Rust type is known.
pub(crate) fn spelled(ty: &Ty, types: &Types) -> Option<String> {
    Some(match types.settled(ty) {
        Ty::F32 => "float".into(),
        // indices of arrays are proven to fit an int
        Ty::I32 | Ty::Usize => "int".into(),
        Ty::U32 => "u32".into(),
        Ty::U8 => "u8".into(),
        Ty::U64 => "u64".into(),
        Ty::I64 => "i64".into(),
        Ty::Bool => "bool".into(),
        Ty::Unit => "void".into(),
        Ty::RowIndex => "RowIndex".into(),
        Ty::LogitIndex => "LogitIndex".into(),
        Ty::KvIndex => "KvIndex".into(),
        Ty::RowState => "RowState".into(),
        Ty::QueryTile => "QueryTile".into(),
        Ty::Row => "R&".into(),
        Ty::Packed(Plane::Codes) => "C".into(),
        Ty::Packed(Plane::Side) => "S".into(),
        Ty::PackedMut(Plane::Codes) => "C&".into(),
        Ty::PackedMut(Plane::Side) => "S&".into(),
        Ty::EncodeRow => "const R&".into(),
        Ty::Device(name) | Ty::Param(name) => name,
        Ty::Struct(name, args) if args.is_empty() => name,
        Ty::Struct(name, args) => {
            let args: Option<Vec<String>> = args.iter().map(|t| spelled(t, types)).collect();
            format!("{name}<{}>", args?.join(", "))
        }
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
