//! One public type of each name: what `attn` defines and re-exports has no twin, and the layer below the facade, whose
//! types are named `Cuda..`, is not seen through it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree, Visibility};

use crate::files::{read, root, sources};

/// The crates that `attn` re-exports, and the folders of their sources. The stock variants have families of their own.
const CRATES: [(&str, &str); 3] =
    [("attn", "src"), ("attn_core", "attn-core/src"), ("attn_kernels", "attn-kernels/src")];

/// What `attn` makes public, one path a line; `UPDATE_DOCS=1` writes it.
const LIST: &str = "tests/house/public_names.txt";

/// The most public names.
const NAMES: usize = 267;

/// Names of the layer below that users see.
const ALLOWED: [&str; 1] = ["CudaError"];

/// A module: its crate, and its path below the crate's root.
type Module = (String, Vec<String>);

/// What a path names.
enum Target {
    Module(Module),
    /// The path of the definition.
    Type(String),
    /// The path of a function or a constant.
    Value(String),
}

/// The items of all modules.
struct Crates(BTreeMap<Module, Vec<Item>>);

impl Crates {
    /// Parses sources of (crate, path below its folder, text).
    fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        let mut crates = Crates(BTreeMap::new());
        for (of, path, text) in files {
            let parts = path.trim_end_matches(".rs").split('/').filter(|part| *part != "lib");
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
            crates.insert((of.to_owned(), parts.map(str::to_owned).collect()), file.items);
        }
        crates
    }

    fn insert(&mut self, module: Module, items: Vec<Item>) {
        for item in &items {
            if let Item::Mod(inner) = item
                && let Some((_, items)) = &inner.content
            {
                self.insert(child(&module, &inner.ident.to_string()), items.clone());
            }
        }
        self.0.insert(module, items);
    }

    /// What `path` names, as seen from a module; nothing for functions, macros and other crates.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Target> {
        let Some((name, rest)) = path.split_first() else { return Some(Target::Module(from.clone())) };
        if depth > 16 {
            return None;
        }
        let (of, at) = from;
        match name.as_str() {
            "crate" => return self.resolve(&(of.clone(), Vec::new()), rest, depth + 1),
            "self" => return self.resolve(from, rest, depth + 1),
            "super" => return self.resolve(&(of.clone(), at[..at.len() - 1].to_vec()), rest, depth + 1),
            _ => {}
        }
        let inner = child(from, name);
        if self.0.contains_key(&inner) {
            return self.resolve(&inner, rest, depth + 1);
        }
        for item in &self.0[from] {
            if rest.is_empty() && named(item).is_some_and(|(ident, _)| ident == name) {
                let definition = format!("{of}::{}", [at, path].concat().join("::"));
                return Some(if type_of(item).is_some() {
                    Target::Type(definition)
                } else {
                    Target::Value(definition)
                });
            }
            if let Item::Use(item) = item {
                for (known, path) in leaves(&item.tree, &[]) {
                    if known == *name && path != [name.as_str()] {
                        return self.resolve(from, &[&path[..], rest].concat(), depth + 1);
                    }
                }
            }
        }
        let root = (name.clone(), Vec::new());
        if self.0.contains_key(&root) { self.resolve(&root, rest, depth + 1) } else { None }
    }

    /// What is public below a module that users see as `path`.
    fn public(&self, module: &Module, path: &str, seen: &mut BTreeSet<Module>, found: &mut Names) {
        if !seen.insert(module.clone()) {
            return;
        }
        let below = |name: &str| if name.is_empty() { path.to_owned() } else { format!("{path}::{name}") };
        for item in &self.0[module] {
            match item {
                Item::Mod(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                    let name = item.ident.to_string();
                    self.public(&child(module, &name), &below(&name), seen, found);
                }
                Item::Use(item) if is_public(&item.vis) => {
                    for (name, path) in leaves(&item.tree, &[]) {
                        match self.resolve(module, &path, 0) {
                            Some(Target::Module(target)) => self.public(&target, &below(&name), seen, found),
                            Some(Target::Type(definition)) => found.add(definition, below(&name), Some(name)),
                            Some(Target::Value(definition)) => found.add(definition, below(&name), None),
                            None => {}
                        }
                    }
                }
                _ => {
                    let Some((ident, Visibility::Public(_))) = named(item) else { continue };
                    let definition = [&module.1[..], &[ident.to_string()]].concat().join("::");
                    let definition = format!("{}::{definition}", module.0);
                    let name = ident.to_string();
                    found.add(definition, below(&name), type_of(item).is_some().then_some(name));
                }
            }
        }
    }

    /// What is public in `attn`.
    fn names(&self) -> Names {
        let mut found = Names::default();
        self.public(&("attn".to_owned(), Vec::new()), "attn", &mut BTreeSet::new(), &mut found);
        found
    }

    /// What is wrong with the public types of `attn`.
    fn twins(&self) -> Vec<String> {
        let wrong = |(name, definitions): (String, BTreeSet<String>)| {
            let below = name.starts_with("Cuda") && !ALLOWED.contains(&name.as_str());
            (definitions.len() > 1 || below).then(|| format!("{name}: {definitions:?}"))
        };
        self.names().types.into_iter().filter_map(wrong).collect()
    }
}

/// Public names.
#[derive(Default)]
struct Names {
    /// The definitions of each type.
    types: BTreeMap<String, BTreeSet<String>>,
    /// The shortest path of each definition, as users see it.
    paths: BTreeMap<String, String>,
}

impl Names {
    fn add(&mut self, definition: String, path: String, of_type: Option<String>) {
        let shortest = self.paths.entry(definition.clone()).or_insert_with(|| path.clone());
        if path.len() < shortest.len() {
            *shortest = path;
        }
        if let Some(name) = of_type {
            self.types.entry(name).or_default().insert(definition);
        }
    }
}

fn child((of, at): &Module, name: &str) -> Module {
    (of.clone(), [&at[..], &[name.to_owned()]].concat())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| matches!(&attr.meta, syn::Meta::List(list) if list.path.is_ident("doc")))
}

/// The name of an item and who sees it.
fn named(item: &Item) -> Option<(&syn::Ident, &Visibility)> {
    match item {
        Item::Fn(item) => Some((&item.sig.ident, &item.vis)),
        Item::Const(item) => Some((&item.ident, &item.vis)),
        Item::Static(item) => Some((&item.ident, &item.vis)),
        _ => type_of(item),
    }
}

/// The name of a type and who sees it.
fn type_of(item: &Item) -> Option<(&syn::Ident, &Visibility)> {
    match item {
        Item::Struct(item) => Some((&item.ident, &item.vis)),
        Item::Enum(item) => Some((&item.ident, &item.vis)),
        Item::Union(item) => Some((&item.ident, &item.vis)),
        Item::Trait(item) => Some((&item.ident, &item.vis)),
        Item::Type(item) => Some((&item.ident, &item.vis)),
        _ => None,
    }
}

/// The imported names of a `use`, and the path of each. A glob has the path of its module, and no name of its own.
fn leaves(tree: &UseTree, before: &[String]) -> Vec<(String, Vec<String>)> {
    let at = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &at(&path.ident)),
        UseTree::Group(group) => group.items.iter().flat_map(|tree| leaves(tree, before)).collect(),
        UseTree::Glob(_) => vec![(String::new(), before.to_vec())],
        UseTree::Name(name) if name.ident == "self" => {
            vec![(before.last().cloned().unwrap_or_default(), before.to_vec())]
        }
        UseTree::Name(name) => vec![(name.ident.to_string(), at(&name.ident))],
        UseTree::Rename(rename) if rename.ident == "self" => vec![(rename.rename.to_string(), before.to_vec())],
        UseTree::Rename(rename) => vec![(rename.rename.to_string(), at(&rename.ident))],
    }
}

fn crates() -> Crates {
    let sources = sources();
    let files = sources.iter().filter(|source| source.path.ends_with(".rs")).filter_map(|source| {
        let (of, folder) = CRATES.iter().find(|(_, folder)| source.path.starts_with(&format!("{folder}/")))?;
        Some((*of, &source.path[folder.len() + 1..], source.text.as_str()))
    });
    Crates::parse(files)
}

/// The list of public names says what a change adds.
#[test]
fn public_names_are_few_and_listed() {
    let names: BTreeSet<String> = crates().names().paths.into_values().collect();
    let list = read(LIST);
    let listed: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let differ = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    if names != listed && std::env::var_os("UPDATE_DOCS").is_some() {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(root().join(LIST), text).expect("a list that can be written");
        return;
    }
    let (added, gone) = (differ(&names, &listed), differ(&listed, &names));
    assert!(added.is_empty() && gone.is_empty(), "new names: {added:#?}\nnames that are gone: {gone:#?}\n{LIST}");
    assert!(names.len() <= NAMES, "{} public names, at most {NAMES} are allowed", names.len());
}

#[test]
fn attn_has_one_public_type_of_each_name() {
    let twins = crates().twins();
    assert!(twins.is_empty(), "public types of one name, or of the layer below the facade:\n{}", twins.join("\n"));
}

#[test]
fn twins_are_found_through_re_exports() {
    let lib = "mod plan; pub use plan::Plan; pub use attn_core::{batch, Variant}; pub use batch::Batch;";
    let core =
        [("attn_core", "lib.rs", "pub mod batch; pub struct Variant;"), ("attn_core", "batch.rs", "pub struct Batch;")];
    let kernels =
        ("attn_kernels", "lib.rs", "pub mod cuda { pub struct Plan; pub struct Event; pub struct CudaPlan; }");
    let twins = |text: &str| {
        let own = [("attn", "lib.rs", text), ("attn", "plan.rs", "pub struct Plan; struct Batch;"), kernels];
        Crates::parse(own.into_iter().chain(core)).twins()
    };
    assert_eq!(twins(lib), [""; 0]);
    assert_eq!(twins(&format!("{lib} pub mod cuda {{ pub use attn_kernels::cuda::Event; }}")), [""; 0]);
    let all = twins(&format!("{lib} pub use attn_kernels::cuda;"));
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(
        all[0].starts_with("CudaPlan") && all[1].starts_with("Plan") && all[1].contains("attn::plan::Plan"),
        "{all:?}"
    );
    assert_eq!(twins(&format!("{lib} pub use attn_kernels::cuda::*;")).len(), 2);
}
