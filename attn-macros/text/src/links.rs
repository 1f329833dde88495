//! What hooks name: constants, helpers and types of the text.

use attn_codegen::{device_fn, device_type, messages};
use attn_core::lang::{
    ConstValue, DeviceFn, FieldDesc,
    device_type::{TypeDesc, TypeLink},
    lints::spaces::Spaces,
};
use quote::ToTokens as _;
use syn::{Item, ItemEnum};

use crate::{
    condition::{Ex, NoNames},
    descriptor::{self, Links},
    expansion::last_name,
    kept::{kept, kept_list, kept_str},
    module::{DeviceTypeMade, Helper, In, Module},
    spaces::of_helper,
    tile_form::{Scope, TileForm},
};

impl Module {
    /// What an emitted descriptor names.
    pub(crate) fn links(&mut self, file: usize, emitted: &syn::ExprStruct) -> Option<Links> {
        let mut links = Some((Vec::new(), Vec::new(), Vec::new()));
        for (name, path) in descriptor::const_paths(emitted) {
            match self.constant(&path) {
                Some(value) => links.iter_mut().for_each(|(consts, ..)| {
                    consts.push(descriptor::constant(name.clone(), value));
                }),
                None => {
                    let written = path.to_token_stream().to_string().replace(' ', "");
                    let message = format!(
                        "the text has no constant `{written}` of type f32, i32, u32, u64, i64, bool or an enum with \
                         `#[device_type]`, of literals and constants before it, with + - * / % << >> and comparisons"
                    );
                    self.mistake(file, &path, message);
                    links = None;
                }
            }
        }
        for path in descriptor::helper_paths(emitted) {
            match self.helper(&last_name(&path)) {
                Some(helper) => links.iter_mut().for_each(|(_, helpers, _)| helpers.push(helper.desc)),
                // it has mistakes of its own
                None if self.helpers.contains_key(&last_name(&path)) => links = None,
                None => {
                    let message = format!("the text has no function `{}` with `#[device_fn]`", last_name(&path));
                    self.mistake(file, &path, message);
                    links = None;
                }
            }
        }
        for (name, path) in descriptor::type_paths(emitted) {
            match self.device_type(&last_name(&path)) {
                Some(ty) => links.iter_mut().for_each(|(.., types)| {
                    types.push(TypeLink { name: kept_str(name.clone()), ty });
                }),
                None => {
                    let message = format!("the text has no type `{}` with `#[device_type]`", last_name(&path));
                    self.mistake(file, &path, message);
                    links = None;
                }
            }
        }
        let (consts, device_fns, types) = links?;
        Some(Links { consts: kept_list(consts), device_fns: kept_list(device_fns), types: kept_list(types) })
    }

    /// The constant of a path: one of the text, of the standard library, or a variant of an enum.
    fn constant(&mut self, path: &syn::Path) -> Option<ConstValue> {
        if let Some((ty, _)) = enum_and_variant(path) {
            self.device_type(&ty);
        }
        self.made_constant(path)
    }

    /// As [`Self::constant`], of enums that are made already.
    fn made_constant(&self, path: &syn::Path) -> Option<ConstValue> {
        self.constants.get(path).or_else(|| {
            let (ty, variant) = enum_and_variant(path)?;
            let made = self.made_types.get(&ty)?.as_ref()?;
            made.values.get(&variant).map(|value| ConstValue::Enum(made.desc, *value))
        })
    }

    /// A helper by its Rust name.
    pub(crate) fn helper(&mut self, name: &str) -> Option<Helper> {
        if let Some(made) = self.made_helpers.get(name) {
            return *made;
        }
        if let Some(first) = self.making.iter().position(|making| making == name) {
            let cycle: Vec<String> = self.making.iter().skip(first).cloned().collect();
            for name in cycle {
                let In { file, item: (_, item) } = self.helpers.get(&name)?;
                let (file, ident) = (*file, item.sig.ident.clone());
                self.mistake(file, &ident, messages::RECURSION);
            }
            return None;
        }
        self.making.push(name.to_owned());
        let made = self.make_helper(name);
        self.making.pop();
        self.made_helpers.insert(name.to_owned(), made);
        made
    }

    fn make_helper(&mut self, name: &str) -> Option<Helper> {
        let In { file, item: (arguments, item) } = self.helpers.get(name)?;
        let (file, arguments, tokens) = (*file, arguments.clone(), item.to_token_stream());
        let expansion = self.expanded(file, device_fn::expand(arguments, tokens))?;
        let emitted = expansion.literals("DeviceFn").first().copied()?;
        self.check_helper_types(name);
        let links = self.links(file, emitted)?;
        let cuda = self.cuda(file);
        let desc = kept(DeviceFn {
            name: kept_str(crate::expansion::text(emitted, "name")),
            cuda: cuda(crate::expansion::text(emitted, "cuda")),
            exact: cuda(crate::expansion::text(emitted, "exact")),
            inexact: kept_str(crate::expansion::text(emitted, "inexact")),
            over: cuda(crate::expansion::text(emitted, "over")),
            device_fns: links.device_fns,
            types: links.types,
            consts: links.consts,
        });
        // the one of both that does not call the other
        let form = |name: &str| expansion.bodies(name).first().copied().and_then(|body| self.tile_form(body, &[]));
        let over = form("over").or_else(|| form("parts"));
        let spaces = expansion.literals("Spaces").first().map_or(Spaces::UNKNOWN, |emitted| of_helper(emitted));
        self.check_spaces(file, &expansion.checks(), &[]);
        Some(Helper { desc, over: over.map(kept), spaces })
    }

    /// A struct or an enum by its name.
    pub(crate) fn device_type(&mut self, name: &str) -> Option<&'static TypeDesc> {
        if let Some(made) = self.made_types.get(name) {
            return made.as_ref().map(|made| made.desc); // none inside itself
        }
        let In { file, item: (arguments, item) } = self.types.get(name)?;
        let (file, arguments, item) = (*file, arguments.clone(), item.clone());
        self.made_types.insert(name.to_owned(), None);
        let expansion = self.expanded(file, device_type::expand(arguments, item.to_token_stream()))?;
        let emitted = expansion.literals("TypeDesc").first().copied()?;
        let types = self.links(file, emitted)?.types;
        let values = match &item {
            Item::Enum(item) => self.discriminants(item)?,
            _ => Vec::new(),
        };
        let in_order: Vec<i32> = values.iter().map(|(_, value)| *value).collect();
        let desc = descriptor::device_type(emitted, &in_order, types, &self.cuda(file));
        self.made_types.insert(name.to_owned(), Some(DeviceTypeMade { desc, values: values.into_iter().collect() }));
        Some(desc)
    }

    /// The variants of an enum and their values.
    fn discriminants(&self, item: &ItemEnum) -> Option<Vec<(String, i32)>> {
        let mut next = 0i32;
        let mut values = Vec::new();
        for variant in &item.variants {
            if let Some((_, expr)) = &variant.discriminant {
                let ex = Ex::of(expr, &|path| self.constants.number(path)).ok()?;
                next = i32::try_from(ex.integer(&NoNames).ok()?).ok()?;
            }
            values.push((variant.ident.to_string(), next));
            next = next.wrapping_add(1);
        }
        Some(values)
    }

    pub(crate) fn tile_form(&self, body: &syn::Block, fields: &[FieldDesc]) -> Option<TileForm> {
        let field = |name: &str| fields.iter().position(|field| field.name == name);
        // helpers and types are made before the forms that name them: `links` came first
        let constant = |path: &syn::Path| self.made_constant(path);
        let helper = |name: &str| self.made_helpers.get(name).copied().flatten().and_then(|helper| helper.over);
        TileForm::of(body, &Scope { field: &field, constant: &constant, helper: &helper })
    }
}

/// The last two names of a path: an enum and its variant.
fn enum_and_variant(path: &syn::Path) -> Option<(String, String)> {
    let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (variant, ty) = (names.next()?, names.next()?);
    Some((ty, variant))
}
