//! The coordinates of its request that a hook on keys reads. A hook that reads none gives the same result for every
//! request that shares a key, so it can run on a shared prefix.

use crate::{
    ir::{Block, Expr, Function, Kind, Stmt},
    types::Ty,
};

/// Coordinates of `KvIndex` that differ between requests that share a key.
const OF_A_REQUEST: [&str; 3] = ["batch", "kv_token", "kv_len"];

/// The coordinates of the request that a hook on keys or values, or a remapping of keys, reads: all of them where it
/// passes the whole index on. Other hooks have none.
pub(crate) fn read(function: &Function) -> impl Iterator<Item = &'static str> {
    let on_keys = matches!(function.name.as_str(), "key_transform" | "value_transform" | "remap_kv_pos");
    OF_A_REQUEST.into_iter().filter(move |word| on_keys && in_block(&function.body, word))
}

fn in_block(block: &Block, word: &str) -> bool {
    block.stmts.iter().any(|stmt| in_stmt(stmt, word)) || block.tail.iter().any(|e| in_expr(e, word))
}

fn in_stmt(stmt: &Stmt, word: &str) -> bool {
    inside(stmt.children(), word)
}

fn in_expr(e: &Expr, word: &str) -> bool {
    match &e.kind {
        Kind::Coordinate(_, name) => name == word,
        Kind::Local(_) => e.ty == Ty::KvIndex,
        _ => inside(e.children(), word),
    }
}

fn inside((exprs, blocks): (Vec<&Expr>, Vec<&Block>), word: &str) -> bool {
    exprs.into_iter().any(|e| in_expr(e, word)) || blocks.into_iter().any(|block| in_block(block, word))
}
