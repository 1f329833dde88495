//! What hooks name: constants, helpers and types of the text.

use attn_codegen::{device_fn, device_type, messages, names, parse};
use attn_core::lang::desc::{ConstDesc, ConstSource};
use attn_core::lang::device_type::{TypeDesc, TypeLink};
use attn_core::lang::{ConstValue, DeviceFn};
use quote::ToTokens as _;
use syn::{Item, ItemEnum};

use crate::condition::{Ex, NoNames};
use crate::descriptor::{self, Links};
use crate::items::In;
use crate::kept::{kept, kept_list, kept_str};
use crate::module::{DeviceTypeMade, Helper, Module};
use crate::path::{enum_and_variant, last_name};
use crate::spaces::of_helper;
use crate::tile_form::TileForm;

impl Module {
    /// What hooks or a helper name; `fix` gives the path of a constant as it is outside of an impl.
    pub(crate) fn links(
        &mut self,
        file: usize,
        named: &parse::Links,
        fix: impl Fn(&syn::Path) -> syn::Path,
    ) -> Option<Links> {
        let (mut consts, mut helpers, mut types) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = true;
        for link in &named.consts {
            let path = fix(&link.path);
            match self.constant(&path) {
                Some(value) => {
                    consts.push(ConstDesc { name: kept_str(link.name.clone()), value: ConstSource::Text(value) });
                }
                None => {
                    let written = path.to_token_stream().to_string().replace(' ', "");
                    let message = format!(
                        "the text has no constant `{written}` of type f32, i32, u32, u64, i64, bool or an enum with \
                         `#[device_type]`, of literals and constants before it, with + - * / % << >> and comparisons"
                    );
                    self.mistake(file, &path, message);
                    found = false;
                }
            }
        }
        for (_, path) in &named.helpers {
            match self.helper(&last_name(path)) {
                Some(helper) => helpers.push(helper),
                // it has mistakes of its own
                None if self.helpers.contains_key(&last_name(path)) => found = false,
                None => {
                    let message = format!("the text has no function `{}` with `#[device_fn]`", last_name(path));
                    self.mistake(file, &path.segments, message);
                    found = false;
                }
            }
        }
        for link in &named.types {
            match self.device_type(&last_name(&link.path)) {
                Some(ty) => types.push(TypeLink { name: kept_str(link.name.clone()), ty }),
                None => {
                    let message = format!("the text has no type `{}` with `#[device_type]`", last_name(&link.path));
                    self.mistake(file, &link.path, message);
                    found = false;
                }
            }
        }
        found.then(|| Links {
            consts: kept_list(consts),
            device_fns: kept_list(helpers.iter().map(|helper| helper.desc).collect()),
            types: kept_list(types),
            over: helpers.iter().map(|helper| (helper.desc.name, helper.over)).collect(),
        })
    }

    /// The constant of a path: one of the text, of the standard library, or a variant of an enum.
    fn constant(&mut self, path: &syn::Path) -> Option<ConstValue> {
        let of_enum = enum_and_variant(path);
        if let Some((ty, _)) = &of_enum {
            self.device_type(ty);
        }
        self.constants.get(path).or_else(|| {
            let (ty, variant) = of_enum?;
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
        let (file, model) = (*file, device_fn::analyse(arguments, item.to_token_stream()));
        let model = self.reported(file, model)?;
        self.check_helper_types(name);
        let links = self.links(file, &model.links, syn::Path::clone)?;
        let cuda = self.cuda(file);
        let desc = kept(DeviceFn {
            name: kept_str(names::helper(name)),
            cuda: cuda(&model.cuda),
            exact: cuda(&model.exact),
            inexact: model.inexact,
            over: cuda(&model.over_cuda),
            device_fns: links.device_fns,
            types: links.types,
            consts: links.consts,
        });
        let over = kept(TileForm::of(&model.over?, &links.names(&[])));
        self.check_spaces(file, &model.spaces.deferred, &model.links, &[]);
        Some(Helper { desc, over, spaces: of_helper(&model.spaces.summary) })
    }

    /// A struct or an enum by its name.
    pub(crate) fn device_type(&mut self, name: &str) -> Option<&'static TypeDesc> {
        if let Some(made) = self.made_types.get(name) {
            return made.as_ref().map(|made| made.desc); // none inside itself
        }
        let In { file, item: (arguments, item) } = self.types.get(name)?;
        let (file, arguments, item) = (*file, arguments.clone(), item.clone());
        self.made_types.insert(name.to_owned(), None);
        let model = self.reported(file, device_type::analyse(&arguments, item.to_token_stream()))?;
        let types = self.links(file, &model.links, syn::Path::clone)?.types;
        let values = match &item {
            Item::Enum(item) => self.discriminants(item)?,
            _ => Vec::new(),
        };
        let in_order: Vec<i32> = values.iter().map(|(_, value)| *value).collect();
        let desc = descriptor::device_type(&model, &in_order, types, &self.cuda(file));
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
}
