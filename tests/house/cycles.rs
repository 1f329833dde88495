//! Import cycles between source files: strongly connected components of two files or more.
//!
//! An import is a `use` or a path in code. It leads to the file that defines the name: re-exports are followed, and are
//! no imports themselves. Tests are left out, and paths inside macro calls are not seen.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::files::{read, sources};

/// The folders of sources of every crate of the workspace, without the last slash.
fn crates() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    let members = members.split('"').skip(1).step_by(2).map(|member| format!("{member}/src"));
    members.chain(["src".to_owned()]).collect()
}

/// The path of a module in its crate: `["plan", "mixed"]`.
type ModulePath = Vec<String>;

/// An imported name: what it is called here, and the path that it stands for.
struct Import {
    name: String,
    path: Vec<String>,
}

/// One source file as a module.
#[derive(Default)]
struct Module {
    file: String,
    /// Names that the file defines.
    items: BTreeSet<String>,
    /// Named imports and re-exports.
    imports: Vec<Import>,
    /// The modules whose names are all imported or re-exported.
    globs: Vec<Vec<String>>,
    /// Paths that count as imports.
    used: Vec<Vec<String>>,
}

/// The modules of a crate.
struct Crate(BTreeMap<ModulePath, Module>);

impl Crate {
    fn read(folder: &str, files: &[(String, String)]) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in files {
            let below = path.strip_prefix(folder).and_then(|p| p.strip_prefix('/')).expect("a file of the folder");
            let mut at: ModulePath = below.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if at.last().is_some_and(|name| name == "mod") || (at.len() == 1 && matches!(&*at[0], "lib" | "main")) {
                at.pop();
            }
            if at.iter().any(|part| part == "tests" || part == "bin") {
                continue;
            }
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut module = Module { file: path.clone(), ..Module::default() };
            Collector { module: &mut module }.visit_file(&file);
            // a crate with both has its modules in lib.rs, which comes first
            modules.entry(at).or_insert(module);
        }
        Crate(modules)
    }

    /// The file that defines what `path` names, as seen from module `from`.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<&str> {
        if depth > 16 {
            return None;
        }
        let mut at = from.to_vec();
        let mut rest = path;
        let first = rest.first()?;
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            _ => return self.name_in(&at, rest, depth),
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|part| part == "super") {
            at.pop();
            rest = &rest[1..];
        }
        self.name_in(&at, rest, depth)
    }

    /// The file that defines `path`, whose first part is a name of module `at`.
    fn name_in(&self, at: &[String], path: &[String], depth: usize) -> Option<&str> {
        let module = self.0.get(at)?;
        let Some((name, rest)) = path.split_first() else { return Some(&module.file) };
        let child = [at, std::slice::from_ref(name)].concat();
        if self.0.contains_key(&child) {
            return self.name_in(&child, rest, depth).or_else(|| self.0.get(&child).map(|m| m.file.as_str()));
        }
        if module.items.contains(name) {
            return Some(&module.file);
        }
        let named = module.imports.iter().filter(|import| import.name == *name);
        let named = named.filter_map(|import| self.resolve(at, &[&import.path[..], rest].concat(), depth + 1)).next();
        named.or_else(|| {
            let mut globs = module.globs.iter();
            globs.find_map(|glob| self.resolve(at, &[&glob[..], path].concat(), depth + 1))
        })
    }

    /// The files that each file imports from.
    fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, module) in &self.0 {
            let to = module.used.iter().filter_map(|path| self.resolve(at, path, 0));
            edges.insert(&module.file, to.filter(|file| *file != module.file).collect());
        }
        edges
    }
}

/// Fills a module from its syntax.
struct Collector<'a> {
    module: &'a mut Module,
}

pub(crate) fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let cfg = attr.path().is_ident("cfg") && attr.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        cfg || attr.path().is_ident("test")
    })
}

pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

impl Collector<'_> {
    fn import(&mut self, tree: &syn::UseTree, before: &[String], exported: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                self.import(&path.tree, &[before, &[path.ident.to_string()]].concat(), exported);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before, exported)),
            syn::UseTree::Glob(_) => {
                self.module.globs.push(before.to_vec());
                if !exported {
                    self.module.used.push(before.to_vec());
                }
            }
            syn::UseTree::Name(_) | syn::UseTree::Rename(_) => {
                let (ident, name) = match tree {
                    syn::UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
                    syn::UseTree::Rename(rename) => (rename.ident.to_string(), rename.rename.to_string()),
                    _ => return,
                };
                let mut path = before.to_vec();
                if ident != "self" {
                    path.push(ident);
                }
                let name = if name == "self" { before.last().cloned().unwrap_or_default() } else { name };
                if !exported {
                    self.module.used.push(path.clone());
                }
                self.module.imports.push(Import { name, path });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        let name = match item {
            syn::Item::Fn(item) => Some(&item.sig.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Const(item) => Some(&item.ident),
            syn::Item::Static(item) => Some(&item.ident),
            syn::Item::Macro(item) => item.ident.as_ref(),
            syn::Item::Mod(item) if item.content.is_some() => Some(&item.ident),
            _ => None,
        };
        self.module.items.extend(name.map(ToString::to_string));
        if let syn::Item::Use(item) = item {
            self.import(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.module.used.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Tarjan's strongly connected components, of two files or more.
struct Components<'a> {
    edges: &'a BTreeMap<&'a str, BTreeSet<&'a str>>,
    index: BTreeMap<&'a str, usize>,
    low: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    found: Vec<Vec<String>>,
}

impl<'a> Components<'a> {
    fn of(edges: &'a BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<String>> {
        let (index, low) = (BTreeMap::new(), BTreeMap::new());
        let mut components = Components { edges, index, low, stack: Vec::new(), found: Vec::new() };
        for file in edges.keys() {
            if !components.index.contains_key(file) {
                components.visit(file);
            }
        }
        components.found
    }

    fn visit(&mut self, file: &'a str) {
        let number = self.index.len();
        self.index.insert(file, number);
        self.low.insert(file, number);
        self.stack.push(file);
        for to in &self.edges[file] {
            if !self.index.contains_key(to) {
                self.visit(to);
                self.low.insert(file, self.low[file].min(self.low[to]));
            } else if self.stack.contains(to) {
                self.low.insert(file, self.low[file].min(self.index[to]));
            }
        }
        if self.low[file] == number {
            let at = self.stack.iter().position(|on| *on == file).expect("it is on the stack");
            let mut component: Vec<_> = self.stack.split_off(at).into_iter().map(str::to_owned).collect();
            component.sort();
            if component.len() > 1 {
                self.found.push(component);
            }
        }
    }
}

/// The components of one crate's files.
fn components(folder: &str, files: &[(String, String)]) -> Vec<Vec<String>> {
    let tree = Crate::read(folder, files);
    let edges = tree.edges();
    Components::of(&edges)
}

#[test]
fn no_files_import_each_other() {
    let sources = sources();
    let mut found = Vec::new();
    for folder in crates() {
        let of_crate = |path: &str| path.strip_prefix(&folder).is_some_and(|rest| rest.starts_with('/'));
        let files: Vec<_> = sources
            .iter()
            .filter(|source| of_crate(&source.path) && source.path.ends_with(".rs"))
            .map(|source| (source.path.clone(), source.text.clone()))
            .collect();
        assert!(!files.is_empty(), "{folder} has no sources");
        found.extend(components(&folder, &files).iter().map(|component| component.join(" <-> ")));
    }
    assert!(found.is_empty(), "{} import cycles:\n{}", found.len(), found.join("\n"));
}

#[test]
fn cycles_are_found_through_re_exports() {
    let file = |path: &str, text: &str| (format!("x/src/{path}"), text.to_owned());
    let files = [
        file("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        file("a.rs", "use crate::c::C; pub struct A;"),
        file("b.rs", "pub use crate::a::A; pub struct B;"),
        file("c.rs", "#[cfg(test)] mod tests { use crate::b::B; } pub struct C; fn f(_: &super::b::A) {}"),
    ];
    assert_eq!(components("x/src", &files), [["x/src/a.rs", "x/src/c.rs"]]);
    assert!(components("x/src", &files[..3]).is_empty());
}
