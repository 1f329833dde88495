//! The coordinates that a hook reads. A hook gives the same result for all rows and keys that agree in them, so a
//! shared prefix may be transformed once, and several devices know what they would see differently.

use std::collections::BTreeMap;

use crate::hook;
use crate::ir::{Expr, Function, Kind, Part};
use crate::types::Ty;

/// A coordinate that a hook reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinateRead {
    /// The method.
    pub hook: String,
    /// `kv_pos`, `qo_head`, ..
    pub coordinate: &'static str,
    /// Whether it is an index of parameter tensors and nothing else.
    pub is_index: bool,
}

/// The coordinates that a hook reads in their order: all of them where it passes the whole index on.
pub(crate) fn read(function: &Function) -> Vec<CoordinateRead> {
    // how often each is read, and how often as an index of a tensor
    let mut reads = BTreeMap::<&'static str, [usize; 2]>::new();
    let words = |ty: &Ty| match ty {
        Ty::RowIndex | Ty::LogitIndex | Ty::KvIndex => hook::coordinates(ty).map_or(&[][..], |(words, _)| words),
        _ => &[],
    };
    let of = |e: &Expr| match &e.kind {
        Kind::Coordinate(local, name) => {
            let words = words(&function.locals[*local].ty);
            words.iter().find(|word| **word == name).map_or(&[][..], std::slice::from_ref)
        }
        Kind::Local(_) => words(&e.ty),
        _ => &[],
    };
    let mut visit = |part: Part<'_>| {
        if let Part::Expr(e) = part {
            of(e).iter().for_each(|word| reads.entry(word).or_default()[0] += 1);
            if let Kind::Element(_, index) | Kind::Store { index, .. } = &e.kind {
                let alone = index.iter().filter(|e| matches!(e.kind, Kind::Coordinate(..)));
                alone.flat_map(of).for_each(|word| reads.entry(word).or_default()[1] += 1);
            }
        }
        None
    };
    function.body.parts().for_each(|part| _ = part.any(&mut visit));
    let in_order = hook::LOGIT.iter().filter_map(|word| Some((*word, reads.get(word)?)));
    let read = |(coordinate, [all, indices]): (_, &[usize; 2])| CoordinateRead {
        hook: function.name.clone(),
        coordinate,
        is_index: all == indices,
    };
    in_order.map(read).collect()
}
