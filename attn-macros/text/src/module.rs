//! The items of source files, and the variants that they define.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use attn_codegen::budget::is_spent;
use attn_codegen::impl_item::without_self;
use attn_codegen::params::{self, Field};
use attn_codegen::report::Report;
use attn_codegen::types::Ty;
use attn_codegen::{depth, device_fn, device_type, names, variant};
use attn_core::lang::device_type::TypeDesc;
use attn_core::lang::lints::spaces::Spaces;
use attn_core::lang::{ConstValue, DeviceFn, FieldDesc, FieldType, Normalizer, VariantDesc};
use proc_macro2::{LexError, Span, TokenStream};
use quote::ToTokens as _;
use syn::{Attribute, Expr, Item, ItemImpl, ItemStruct, Meta, spanned::Spanned as _};

use crate::budget::{self, MISTAKES};
use crate::condition::{Ex, NoNames};
use crate::constant::Constants;
use crate::descriptor::{self, OfItems};
use crate::error::{Diagnostic, TextError};
use crate::field::field_type;
use crate::items::{Helpers, Impls, In, Types};
use crate::kept::{kept_list, kept_str};
use crate::path::last_name;
use crate::tile_form::TileForm;
use crate::variant::{ParamText, VariantText};
use crate::{inlined, reads};

/// What is wrong with an item with an attribute and its arguments.
type Check = fn(&TokenStream, TokenStream) -> Result<(), Report>;

/// An attribute, the items that it is for, and what its macro says of others.
type OfItem = (&'static str, fn(&Item) -> bool, Check);

const ATTRIBUTES: [OfItem; 3] = [
    (
        "attention_variant",
        |item| matches!(item, Item::Impl(_)),
        |arguments, item| variant::analyse(arguments, item).map(|_| ()),
    ),
    (
        "device_fn",
        |item| matches!(item, Item::Fn(_)),
        |arguments, item| device_fn::analyse(arguments, item).map(|_| ()),
    ),
    (
        "device_type",
        |item| matches!(item, Item::Struct(_) | Item::Enum(_)),
        |arguments, item| device_type::analyse(arguments, item).map(|_| ()),
    ),
];

/// A file of the text.
struct File {
    name: &'static str,
    /// The name as `#line` has it.
    literal: String,
    /// The name that spans of its tokens have, as `#line` has it.
    of_spans: String,
}

/// The items of a text.
pub(crate) struct Module {
    files: Vec<File>,
    pub(crate) constants: Constants,
    structs: HashMap<String, In<ItemStruct>>,
    pub(crate) impls: Impls,
    pub(crate) helpers: Helpers,
    pub(crate) types: Types,
    /// Helpers and types whose descriptors are made; `None` after a mistake, and while a type is being made.
    pub(crate) made_helpers: HashMap<String, Option<Helper>>,
    /// Helpers that are being made, each called by the one before.
    pub(crate) making: Vec<String>,
    pub(crate) made_types: HashMap<String, Option<DeviceTypeMade>>,
    /// Names of values and of types.
    pub(crate) defined: HashSet<(bool, String)>,
    /// The types of constants and helpers.
    pub(crate) known: Option<Rc<HashMap<String, Ty>>>,
    /// The types of constants as they are written.
    pub(crate) const_types: Vec<(String, syn::Type)>,
    mistakes: Vec<Diagnostic>,
}

/// A helper: for kernels, and for the mask over a tile.
#[derive(Clone, Copy)]
pub(crate) struct Helper {
    pub(crate) desc: &'static DeviceFn,
    pub(crate) over: &'static TileForm,
    pub(crate) spaces: Spaces,
}

/// A struct or an enum for kernels, and the values of an enum's variants.
pub(crate) struct DeviceTypeMade {
    pub(crate) desc: &'static TypeDesc,
    pub(crate) values: HashMap<String, i32>,
}

impl Module {
    /// Reads the items of files.
    pub(crate) fn parse(files: &[(&str, &str)]) -> Result<Module, TextError> {
        let mut module = Module {
            files: Vec::new(),
            constants: Constants::default(),
            structs: HashMap::new(),
            impls: Vec::new(),
            helpers: HashMap::new(),
            types: HashMap::new(),
            made_helpers: HashMap::new(),
            making: Vec::new(),
            made_types: HashMap::new(),
            defined: HashSet::new(),
            known: None,
            const_types: Vec::new(),
            mistakes: Vec::new(),
        };
        let mut left = budget::TOKENS;
        for (name, text) in files {
            let parsed = match read_file(text, &mut left)? {
                Ok(parsed) => parsed,
                Err((span, message)) => {
                    module.mistakes.push(Diagnostic::at(name, span, message));
                    continue;
                }
            };
            let of_spans = parsed.items.first().map_or_else(String::new, |item| item.span().file());
            let of_spans = names::file_literal(&of_spans);
            let name = kept_str(name.replace('\\', "/"));
            let literal = names::file_literal(name);
            module.files.push(File { name, literal, of_spans });
            let file = module.files.len() - 1;
            parsed.items.into_iter().for_each(|item| module.add(file, item));
        }
        Ok(module)
    }

    fn add(&mut self, file: usize, item: Item) {
        if !self.is_read(file, &item) {
            return;
        }
        // an attribute on an item that it is not for: its macro says so
        for (name, _, check) in ATTRIBUTES.iter().filter(|(_, is_for, _)| !is_for(&item)) {
            let mut other = item.clone();
            if let Some(arguments) = attributes(&mut other).and_then(|attrs| take(attrs, name)) {
                self.reported(file, check(&arguments, other.to_token_stream()));
            }
        }
        match item {
            Item::Const(item) => {
                self.constants.add(&item);
                self.const_types.push((item.ident.to_string(), *item.ty));
            }
            Item::Struct(mut item) => {
                let name = item.ident.to_string();
                match take(&mut item.attrs, "device_type") {
                    Some(arguments) => {
                        self.types.insert(name, In { file, item: (arguments, Item::Struct(item)) });
                    }
                    None => {
                        self.structs.insert(name, In { file, item });
                    }
                }
            }
            Item::Enum(mut item) => {
                if let Some(arguments) = take(&mut item.attrs, "device_type") {
                    self.types.insert(item.ident.to_string(), In { file, item: (arguments, Item::Enum(item)) });
                }
            }
            Item::Fn(mut item) => {
                // others are called by compiled code alone
                if let Some(arguments) = take(&mut item.attrs, "device_fn") {
                    self.helpers.insert(item.sig.ident.to_string(), In { file, item: (arguments, item) });
                }
            }
            Item::Impl(item) if item.attrs.iter().any(|attr| attr.path().is_ident("kv_format")) => {
                // how many bytes a row takes is compiled Rust
                self.mistake(file, &item.self_ty, "a KV format is compiled into the program: Rust text has variants");
            }
            Item::Impl(mut item) => {
                if let Some(arguments) = take(&mut item.attrs, "attention_variant") {
                    self.impls.push(In { file, item: (arguments, item) });
                }
            }
            // imports, tests, and what compiled code alone uses
            Item::ExternCrate(_) | Item::Use(_) | Item::Mod(_) | Item::Type(_) | Item::Static(_) | Item::Trait(_) => {}
            Item::Macro(item) => self.mistake(file, &item, "Rust text has no macros: write the items out"),
            other => self.mistake(
                file,
                &other,
                "Rust text has structs, impls with `#[attention_variant]`, `#[device_fn]`s, `#[device_type]`s and \
                 constants",
            ),
        }
    }

    /// The variants, in the order of the text.
    pub(crate) fn variants(mut self) -> Result<Vec<&'static VariantDesc>, TextError> {
        let before = self.mistakes.len();
        for (file, ident, message) in inlined::mistakes(&self.helpers, &self.types, &self.impls) {
            self.mistake(file, &ident, message);
        }
        if self.mistakes.len() > before {
            return Err(self.refused());
        }
        let mut made = Vec::new();
        for In { file, item: (arguments, item) } in std::mem::take(&mut self.impls) {
            // the text is refused
            if is_spent() {
                break;
            }
            let variants = self.variant(file, &arguments, &item);
            for variant in &variants {
                if made.iter().any(|other: &&VariantDesc| other.name == variant.name) {
                    let message = format!("two variants are called `{}`: rename one", variant.name);
                    self.mistake(file, &item.self_ty, message);
                }
            }
            made.extend(variants);
        }
        // the mistakes of what no variant uses
        for name in self.helpers.keys().cloned().collect::<Vec<_>>() {
            if !is_spent() {
                self.helper(&name);
            }
        }
        for name in self.types.keys().cloned().collect::<Vec<_>>() {
            if !is_spent() {
                self.device_type(&name);
            }
        }
        if self.mistakes.is_empty() && made.is_empty() {
            let files = self.files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
            return Err(TextError::Empty { files });
        }
        if self.mistakes.is_empty() {
            return Ok(made);
        }
        Err(self.refused())
    }

    /// The mistakes, each once, in the order of the lines.
    fn refused(&mut self) -> TextError {
        let mut mistakes = std::mem::take(&mut self.mistakes);
        let mut seen = HashSet::new();
        mistakes.retain(|mistake| seen.insert(mistake.clone()));
        mistakes.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        mistakes.truncate(MISTAKES);
        TextError::Rust(mistakes)
    }

    pub(crate) fn mistake(&mut self, file: usize, at: &impl quote::ToTokens, message: impl std::fmt::Display) {
        let span = at.to_token_stream().into_iter().next().map_or_else(proc_macro2::Span::call_site, |t| t.span());
        self.mistake_at(file, span, message);
    }

    pub(crate) fn mistake_at(&mut self, file: usize, at: Span, message: impl std::fmt::Display) {
        self.mistakes.push(Diagnostic::at(self.files[file].name, at, message));
    }

    /// What a macro found, or its errors as mistakes.
    pub(crate) fn reported<T>(&mut self, file: usize, found: Result<T, Report>) -> Option<T> {
        let errors = found.map_err(Report::errors);
        errors.map_err(|errors| errors.for_each(|(at, message)| self.mistake_at(file, at, message))).ok()
    }

    /// The variants of an impl: one, or one for each instance.
    fn variant(&mut self, file: usize, arguments: &TokenStream, item: &ItemImpl) -> Vec<&'static VariantDesc> {
        let model = self.reported(file, variant::analyse(arguments, item.to_token_stream()));
        let name = match &*item.self_ty {
            syn::Type::Path(ty) => last_name(&ty.path),
            _ => return Vec::new(),
        };
        let Some(In { file: of_struct, item: structure }) = self.structs.get(&name) else {
            self.mistake(file, &item.self_ty, format!("the text has no struct `{name}`"));
            return Vec::new();
        };
        let (of_struct, structure) = (*of_struct, structure.clone());
        let params = self.params(of_struct, &structure);
        let (Some(model), Some((fields, texts, struct_doc))) = (model, params) else { return Vec::new() };
        for (ident, message) in reads::mistakes(item, fields) {
            self.mistake(file, &ident, message);
        }
        self.check_entries(file, item, &structure);
        self.check_hook_types(file, item, fields);
        let Some((normalizer, max_floor)) = self.constants_of(file, item) else { return Vec::new() };
        let of = OfItems { file: self.files[file].name, struct_doc, normalizer, max_floor, fields };

        let mut made = Vec::new();
        for instance in &model.instances {
            let outer = self.constants.clone();
            instance.constants.iter().for_each(|constant| self.constants.add(constant));
            let links = self.links(file, &model.links, |path| without_self(path, &item.self_ty));
            self.check_spaces(file, &model.deferred, &model.links, fields);
            if let Some(links) = links {
                let mask_over = model.mask.form.as_ref().map(|form| TileForm::of(form, &links.names(fields)));
                let text = VariantText { params: texts.clone(), mask_over };
                made.push(descriptor::variant(&model, instance, &links, &of, &self.cuda(file), text));
            }
            self.constants = outer;
        }
        made
    }

    /// The text of a string in which `#line` names the file.
    pub(crate) fn cuda(&self, file: usize) -> impl Fn(&str) -> &'static str + use<> {
        let File { literal, of_spans, .. } = &self.files[file];
        let (from, to) = (of_spans.clone(), literal.clone());
        move |text| kept_str(text.replace(&from, &to))
    }

    /// The parameters of a struct: for the descriptor, for values, and the struct's doc comment.
    #[allow(clippy::type_complexity)] // the three are made of one model
    fn params(&mut self, file: usize, item: &ItemStruct) -> Option<(&'static [FieldDesc], Vec<ParamText>, String)> {
        let model = self.reported(file, params::analyse(item.to_token_stream()))?;
        let (mut fields, mut texts) = (Vec::new(), Vec::new());
        for field in &model.fields {
            let Some(ty) = field_type(field) else {
                let ty = field.ty.to_token_stream();
                self.mistake(file, &field.ty, format!("a variant's parameter cannot be a `{ty}`"));
                return None;
            };
            fields.push(descriptor::field(field, ty));
            texts.push(self.param(file, field, ty)?);
        }
        Some((kept_list(fields), texts, model.doc))
    }

    /// The attributes of a field.
    fn param(&mut self, file: usize, field: &Field, ty: FieldType) -> Option<ParamText> {
        let mut read = |expr: &Expr| {
            let read = Ex::of(expr, &|path| self.constants.number(path));
            self.reported(file, read.map_err(Report::from))
        };
        let require = match &field.require {
            Some(require) => Some(read(&require.value)?),
            None => None,
        };
        let extents = field.shape.iter().flat_map(|shape| &shape.value);
        let shape = extents.map(&mut read).collect::<Option<Vec<_>>>()?;
        // the default of a tensor is a function, which no text can call: the tensor has to be given
        let default = match &field.default {
            Some(default) if matches!(ty, FieldType::Scalar(_)) => read(&default.value)?.value(&NoNames).ok(),
            _ => None,
        };
        Some(ParamText { default, require, shape })
    }

    /// `NORMALIZER` and `MAX_FLOOR` of an impl.
    fn constants_of(&mut self, file: usize, item: &ItemImpl) -> Option<(Normalizer, Option<f32>)> {
        let (mut normalizer, mut max_floor) = (Normalizer::Softmax, None);
        for entry in &item.items {
            let syn::ImplItem::Const(constant) = entry else { continue };
            if constant.ident == "NORMALIZER" {
                let Some(read) = normalizer_of(&constant.expr) else {
                    let message = "write Normalizer::Softmax, Normalizer::MaxScaled, or \
                                   Normalizer::Plain { divide: .. } with `true` or `false`";
                    self.mistake(file, &constant.expr, message);
                    return None;
                };
                normalizer = read;
            } else if constant.ident == "MAX_FLOOR" {
                let Some(ConstValue::F32(floor)) = self.constants.evaluate(&constant.ty, &constant.expr) else {
                    self.mistake(file, &constant.expr, "Rust text evaluates a constant of type f32 here");
                    return None;
                };
                max_floor = Some(floor);
            }
        }
        Some((normalizer, max_floor))
    }
}

const NO_TOKENS: &str = "a bracket or a quote that opens before does not close, or a character is none of Rust's";

/// The items of a text; what is nested too deeply for the parser is refused before it. `left` are the tokens that the
/// text may still have.
fn read_file(text: &str, left: &mut usize) -> Result<Result<syn::File, (Span, String)>, TextError> {
    let tokens = match tokens_of(text) {
        Ok(tokens) => tokens,
        Err(mistake) => return Ok(Err(mistake)),
    };
    let found = budget::tokens(&tokens);
    *left = left.checked_sub(found).ok_or(TextError::Budget {
        budget: "words and signs",
        found: budget::TOKENS - *left + found,
        most: budget::TOKENS,
        way_out: budget::PARTS,
    })?;
    Ok(syn::parse2(tokens).map_err(|error| (error.span(), error.to_string())))
}

/// The tokens of a text, which are not nested deeply.
fn tokens_of(text: &str) -> Result<TokenStream, (Span, String)> {
    let tokens: TokenStream = text.parse().map_err(|error: LexError| (error.span(), NO_TOKENS.to_owned()))?;
    match depth::check(&tokens) {
        Ok(()) => Ok(tokens),
        Err(report) => {
            let first = report.errors().next();
            Err(first.unwrap_or_else(|| (Span::call_site(), "the text is nested too deeply".to_owned())))
        }
    }
}

/// The attributes of an item.
fn attributes(item: &mut Item) -> Option<&mut Vec<Attribute>> {
    Some(match item {
        Item::Fn(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Union(item) => &mut item.attrs,
        Item::Impl(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Const(item) => &mut item.attrs,
        Item::Static(item) => &mut item.attrs,
        Item::Type(item) => &mut item.attrs,
        Item::Mod(item) => &mut item.attrs,
        _ => return None,
    })
}

/// Takes the attribute of this name, which may have a path before it, and gives its arguments.
fn take(attrs: &mut Vec<Attribute>, name: &str) -> Option<TokenStream> {
    let at = attrs.iter().position(|attr| last_name(attr.path()) == name)?;
    Some(match attrs.remove(at).meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    })
}

fn normalizer_of(expr: &syn::Expr) -> Option<Normalizer> {
    match expr {
        syn::Expr::Path(path) => match last_name(&path.path).as_str() {
            "Softmax" => Some(Normalizer::Softmax),
            "MaxScaled" => Some(Normalizer::MaxScaled),
            _ => None,
        },
        syn::Expr::Struct(literal) if last_name(&literal.path) == "Plain" => {
            let divides =
                |field: &&syn::FieldValue| matches!(&field.member, syn::Member::Named(name) if name == "divide");
            match &literal.fields.iter().find(divides)?.expr {
                syn::Expr::Lit(lit) => match &lit.lit {
                    syn::Lit::Bool(divide) => Some(Normalizer::Plain { divide: divide.value }),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}
