//! Large objects in small files: a type whose impls stand in many files has fields that all of them may touch.
//!
//! An impl counts for the file that it stands in, whether of a trait or of none; what macros and derives write does
//! not. Types are told apart by their names. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::cycles::{attributes, is_test};
use crate::files::{Source, sources};

/// Files of a crate with impls of one type.
const FILES: usize = 5;

/// The types that a file defines, and those that it has impls of.
#[derive(Default)]
struct Types {
    defined: BTreeSet<String>,
    implemented: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        let defined = match item {
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.defined.extend(defined.map(ToString::to_string));
        if let syn::Item::Impl(item) = item
            && let syn::Type::Path(of) = &*item.self_ty
            && let Some(name) = of.path.segments.last()
        {
            self.implemented.insert(name.ident.to_string());
        }
        visit::visit_item(self, item);
    }
}

/// The folder of a file's crate, with a slash; `None` for a test and for what is no Rust below `src`.
fn crate_of(path: &str) -> Option<&str> {
    let at = if path.starts_with("src/") { 0 } else { path.find("/src/")? + 1 };
    let below = path[at..].strip_suffix(".rs")?;
    (!below.split('/').any(|part| part == "tests")).then(|| &path[..at])
}

/// The types of all crates with impls in more than [`FILES`] files, with these files.
fn scattered(sources: &[Source]) -> Vec<(String, Vec<&str>)> {
    let mut crates: BTreeMap<&str, Vec<(&str, Types)>> = BTreeMap::new();
    for Source { path, text } in sources {
        let Some(of) = crate_of(path) else { continue };
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut types = Types::default();
        types.visit_file(&file);
        crates.entry(of).or_default().push((path, types));
    }
    let mut found = Vec::new();
    for (of, files) in crates {
        for name in files.iter().flat_map(|(_, types)| &types.defined).collect::<BTreeSet<_>>() {
            let with_impls = files.iter().filter(|(_, types)| types.implemented.contains(name));
            let paths: Vec<_> = with_impls.map(|(path, _)| *path).collect();
            if paths.len() > FILES {
                found.push((format!("{of}{name}"), paths));
            }
        }
    }
    found
}

#[test]
fn no_type_is_implemented_in_many_files() {
    let sources = sources();
    let found = scattered(&sources);
    assert!(found.is_empty(), "types with impls in more than {FILES} files: {found:#?}");
}

#[test]
fn impls_are_counted_by_file_and_crate() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let part = |n: usize| {
        file(&format!("x/src/f{n}.rs"), "impl super::A { fn f() {} } impl From<A> for u8 {} impl Clone for A {}")
    };
    let mut sources: Vec<_> = (0..FILES).map(part).collect();
    sources.push(file("x/src/lib.rs", "pub struct A; #[cfg(test)] mod tests { impl super::A {} }"));
    sources.push(file("x/src/tests/a.rs", "impl crate::A {}"));
    sources.push(file("y/src/lib.rs", "impl x::A {}"));
    assert!(scattered(&sources).is_empty());
    sources.push(file("x/src/more.rs", "impl<T> Into<T> for crate::A {}"));
    let found = scattered(&sources);
    assert!(matches!(&found[..], [(name, paths)] if name == "x/A" && paths.len() == FILES + 1), "{found:?}");
}
