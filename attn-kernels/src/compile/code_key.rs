//! The code key of a cubin: a hash of what a GPU executes. Records of runs are known by it, so that a change of text
//! that compiles to the same code keeps them; the cache on disk has keys of the text.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::log::Resources;
use crate::sha256::sha256_hex;

/// The largest number, in bytes.
const NUMBER_BYTES: u64 = 8;

/// The hash of instructions, constants and resources, without names: sections in the order of their bytes, since names
/// order the file. `None` for what is no cubin.
///
/// A cubin has each constant of its text as a global variable, whose address is in constant bank 4. Instructions have a
/// number's value in them and read nothing there, so that a new constant changes no code; they read arrays.
pub(super) fn of(cubin: &[u8], resources: &[Resources]) -> Option<String> {
    let file = object::File::parse(cubin).ok()?;
    let is_code = |name: &str| name.starts_with(".text.");
    let is_bank = |name: &str| name.starts_with(".nv.constant") && name != ".nv.constant4";
    let executed = |name: &str| is_code(name) || is_bank(name);
    let sections = file.sections().filter(|section| section.name().is_ok_and(executed));
    let mut parts = sections.map(|section| Some(section.data().ok()?.to_vec())).collect::<Option<Vec<_>>>()?;
    if let Some(values) = file.section_by_name(".nv.global.init") {
        let here = |symbol: &object::Symbol<'_, '_>| symbol.section_index() == Some(values.index());
        let arrays = file.symbols().filter(|symbol| here(symbol) && symbol.size() > NUMBER_BYTES);
        let bytes =
            |of: object::Symbol<'_, '_>| values.data_range(of.address(), of.size()).ok().flatten().map(<[_]>::to_vec);
        parts.extend(arrays.filter_map(bytes));
    }
    let shared = file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".nv.shared")));
    parts.extend(shared.map(|section| section.size().to_le_bytes().to_vec()));
    let of_kernel = |r: &Resources| format!("{} {} {}", r.registers, r.spill_stores, r.spill_loads).into_bytes();
    parts.extend(resources.iter().map(of_kernel));
    parts.sort();
    let mut hashed = Vec::new();
    for part in parts {
        hashed.extend((part.len() as u64).to_le_bytes());
        hashed.extend(part);
    }
    Some(sha256_hex(&hashed))
}
