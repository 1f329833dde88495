//! Cubins that are embedded in the program. At run time they are found by key.

use std::sync::{PoisonError, RwLock};

use crate::cache::Key;
use crate::compile::{Arch, Compiled};

/// One embedded cubin. Tables of them are written by [`aot::build`](crate::aot::build) and registered by
/// `attn::include_prebuilt!`.
#[derive(Clone, Copy, Debug)]
pub struct Prebuilt {
    /// [`Key`] in hexadecimal digits.
    pub key: &'static str,
    /// Variant and traits, for messages.
    pub name: &'static str,
    /// Architecture, such as `sm_90a`.
    pub arch: &'static str,
    /// Name and version of the compiler.
    pub compiler: &'static str,
    /// The compile log.
    pub log: &'static str,
    /// The cubin.
    pub cubin: &'static [u8],
}

static TABLES: RwLock<Vec<&'static [Prebuilt]>> = RwLock::new(Vec::new());

impl Prebuilt {
    /// The architecture; `None` if the table is damaged.
    pub fn arch(&self) -> Option<Arch> {
        self.arch.parse().ok()
    }

    pub(crate) fn compiled(&self) -> Compiled {
        Compiled { cubin: self.cubin.into(), log: self.log.to_owned(), compiler: self.compiler.to_owned(), ms: 0.0 }
    }
}

/// Makes the cubins of a table known. Registering a table again changes nothing.
pub fn register(table: &'static [Prebuilt]) {
    let mut tables = TABLES.write().unwrap_or_else(PoisonError::into_inner);
    if !table.is_empty() && !tables.iter().any(|known| std::ptr::eq(*known, table)) {
        tables.push(table);
    }
}

/// Every embedded cubin.
pub fn embedded() -> impl Iterator<Item = &'static Prebuilt> {
    let tables = TABLES.read().unwrap_or_else(PoisonError::into_inner).clone();
    tables.into_iter().flatten()
}

/// The embedded cubin of a key.
pub fn find(key: &Key) -> Option<&'static Prebuilt> {
    let digits = key.to_string();
    embedded().find(|prebuilt| prebuilt.key == digits)
}

/// The architectures of embedded cubins, the most specific and newest first.
pub fn archs() -> Vec<Arch> {
    let mut archs: Vec<Arch> = embedded().filter_map(Prebuilt::arch).collect();
    archs.sort_unstable();
    archs.dedup();
    archs.reverse();
    archs
}
