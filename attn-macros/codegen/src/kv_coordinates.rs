//! The coordinates of its request that a hook on keys reads. A hook that reads none gives the same result for every
//! request that shares a key, so it can run on a shared prefix.

use crate::ir::{Expr, Function, Kind, Part};
use crate::types::Ty;

/// Coordinates of `KvIndex` that differ between requests that share a key.
const OF_A_REQUEST: [&str; 3] = ["batch", "kv_token", "kv_len"];

/// The coordinates of the request that a hook on keys or values, or a remapping of keys, reads: all of them where it
/// passes the whole index on. Other hooks have none.
pub(crate) fn read(function: &Function) -> impl Iterator<Item = &'static str> {
    let on_keys = matches!(function.name.as_str(), "key_transform" | "value_transform" | "remap_kv_pos");
    let reads = |word: &str| {
        function.body.parts().any(|part| {
            part.any(&mut |part| match part {
                Part::Expr(Expr { kind: Kind::Coordinate(_, name), .. }) => Some(name == word),
                Part::Expr(Expr { kind: Kind::Local(_), ty, .. }) => Some(*ty == Ty::KvIndex),
                _ => None,
            })
        })
    };
    OF_A_REQUEST.into_iter().filter(move |word| on_keys && reads(word))
}
