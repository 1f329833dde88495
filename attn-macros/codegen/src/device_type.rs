//! `#[device_type]`: keeps the struct or enum, and emits its C++ definition and descriptor beside it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::parse::{self, ItemContext, Links};
use crate::report::Report;
use crate::types::Ty;
use crate::{budget, descriptor, emit, expand, messages, names};

/// A type: what the macro prints, and what a reader of Rust text makes a descriptor of.
#[derive(Debug)]
pub struct DeviceTypeModel {
    /// Its name in the text.
    pub name: String,
    /// Its definition in CUDA; of an enum the part before the braces.
    pub cuda: String,
    /// The variants of an enum.
    pub variants: Vec<syn::Ident>,
    /// What it names.
    pub links: Links,
}

/// Expands the attribute. The item is kept, with or without errors.
#[allow(clippy::needless_pass_by_value)] // as the compiler hands them over
pub fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand::kept(item, |item| {
        let item: syn::Item = syn::parse2(item)?;
        let (ident, generics, attrs) = head_of(&item)?;
        let (model, errors) = match read(&attr, &item) {
            Ok(model) => (model, TokenStream::new()),
            // without text, so that hooks that use the type do not report errors too
            Err(report) => (DeviceTypeModel::named(ident), report.into_tokens()),
        };
        let companion = generics.params.is_empty().then(|| model.companion(ident));
        let cfg = descriptor::cfg(attrs);
        Ok(quote! {
            #errors
            #(#cfg)*
            const _: () = { #companion };
        })
    })
}

/// The model of a type with this attribute.
///
/// # Errors
/// The type is refused.
pub fn analyse(attr: &TokenStream, item: TokenStream) -> Result<DeviceTypeModel, Report> {
    expand::read(item, |item| {
        let item: syn::Item = syn::parse2(item)?;
        head_of(&item)?;
        read(attr, &item)
    })
}

/// The head of a struct or an enum.
fn head_of(item: &syn::Item) -> Result<(&syn::Ident, &syn::Generics, &[syn::Attribute]), Report> {
    let (ident, generics, attrs, count) = match item {
        syn::Item::Struct(s) => (&s.ident, &s.generics, &s.attrs, s.fields.len()),
        syn::Item::Enum(e) => (&e.ident, &e.generics, &e.attrs, e.variants.len()),
        other => return Err(Report::of(other, messages::NOT_A_TYPE)),
    };
    match count > budget::FIELDS {
        true => Err(Report::of(ident, messages::too_many_fields(count))),
        false => Ok((ident, generics, attrs)),
    }
}

fn read(attr: &TokenStream, item: &syn::Item) -> Result<DeviceTypeModel, Report> {
    let (_, generics, _) = head_of(item)?;
    let mut report = Report::default();
    if !attr.is_empty() {
        report.on(attr, messages::DEVICE_TYPE_ATTR);
    }
    if !generics.params.is_empty() {
        report.on(generics, messages::GENERIC_TYPE);
    }
    let read = match item {
        syn::Item::Struct(item) => structure(item),
        syn::Item::Enum(item) => enumeration(item),
        other => Err(Report::of(other, messages::NOT_A_TYPE)),
    };
    match read {
        Ok(model) if report.is_empty() => Ok(model),
        Ok(_) => Err(report),
        Err(inner) => {
            report.append(inner);
            Err(report)
        }
    }
}

impl DeviceTypeModel {
    /// A type without text.
    fn named(ident: &syn::Ident) -> DeviceTypeModel {
        let name = names::device_type(&ident.to_string());
        DeviceTypeModel { name, cuda: String::new(), variants: Vec::new(), links: Links::default() }
    }

    fn companion(&self, ident: &syn::Ident) -> TokenStream {
        let DeviceTypeModel { name, cuda, variants, links } = self;
        let types = descriptor::types(links, syn::Path::clone);
        let entries = variants.iter().map(|variant| {
            let text = names::within_type(&variant.to_string());
            quote!((#text, ::attn::__private::lang::device_type::value(#ident::#variant as i128)))
        });
        let copied = (!cuda.is_empty()).then(|| {
            quote_spanned! {ident.span()=>
                const _: () = ::attn::__private::lang::device_type::values_are_copied::<#ident>();
            }
        });
        let compared = (!variants.is_empty()).then(|| {
            quote! {
                #[automatically_derived]
                impl ::attn::__private::lang::device_type::DeviceEnum for #ident {}
                #[automatically_derived]
                impl ::attn::__private::lang::desc::HookConst for #ident {
                    fn value(self) -> ::attn::__private::lang::ConstValue {
                        ::attn::__private::lang::ConstValue::Enum(
                            <#ident as ::attn::__private::lang::DeviceType>::DESC, self as i32
                        )
                    }
                }
                #[automatically_derived]
                impl ::attn::__private::lang::interval::Abstract for #ident {
                    fn value(self) -> ::attn::__private::lang::interval::Val {
                        ::attn::__private::lang::interval::of(self as i32)
                    }
                }
            }
        });
        quote! {
            #[automatically_derived]
            impl ::attn::__private::lang::DeviceType for #ident {
                const DESC: &'static ::attn::__private::lang::device_type::TypeDesc =
                    &::attn::__private::lang::device_type::TypeDesc {
                    name: #name,
                    cuda: #cuda,
                    variants: &[#(#entries),*],
                    types: #types,
                };
            }
            #compared
            #copied
        }
    }
}

/// The C++ text of a struct, for tests and tools.
pub fn text(item: &syn::ItemStruct) -> Result<String, Report> {
    structure(item).map(|known| known.cuda)
}

/// The doc comment and the `#line` directive.
fn head(attrs: &[syn::Attribute], at: proc_macro2::Span) -> String {
    names::comments("///", &parse::doc_lines(attrs)) + &names::line_directive(at, &descriptor::file_of(at))
}

fn structure(item: &syn::ItemStruct) -> Result<DeviceTypeModel, Report> {
    let mut shared = ItemContext::default();
    if item.fields.is_empty() {
        shared.report.on(&item.ident, messages::TYPE_WITHOUT_FIELDS);
    }
    let tuple = matches!(item.fields, syn::Fields::Unnamed(_));
    if tuple && item.fields.len() > names::TUPLE_FIELDS.len() {
        shared.report.on(&item.fields, messages::TUPLE_STRUCT_SIZE);
    }
    let name = names::device_type(&item.ident.to_string());
    let mut members = String::new();
    let mut setters = String::new();
    for (i, field) in item.fields.iter().enumerate() {
        refuse_cfg(&field.attrs, &mut shared.report);
        let of = match &field.ident {
            Some(ident) => names::within_type(&ident.to_string()),
            None => names::TUPLE_FIELDS.get(i).unwrap_or(&"").to_string(),
        };
        let Some(ty) = parse::ty::of(&field.ty, &mut shared) else { continue };
        match emit::spelled(&ty, &shared.types).filter(|_| is_value(&ty)) {
            None => shared.report.on(&field.ty, messages::FIELD_TYPE),
            Some(ty) => {
                members.push_str(&format!("  {ty} {of};\n"));
                let with = names::with_field(&of);
                setters.push_str(&format!("  ATTN_FN {name} {with}({ty} to) const {{\n"));
                setters.push_str(&format!(
                    "    {name} changed = *this;\n    changed.{of} = to;\n    return changed;\n  }}\n"
                ));
            }
        }
    }
    if !shared.report.is_empty() {
        return Err(shared.report);
    }
    budget::spend(budget::OF_ITEM + 16 * item.fields.len());
    let head = head(&item.attrs, item.struct_token.span);
    let cuda = format!("{head}struct {name} {{\n{members}{setters}}};\n");
    Ok(DeviceTypeModel { name, cuda, variants: Vec::new(), links: shared.links })
}

fn enumeration(item: &syn::ItemEnum) -> Result<DeviceTypeModel, Report> {
    let mut report = Report::default();
    if item.variants.is_empty() {
        report.on(&item.ident, messages::EMPTY_ENUM);
    }
    for variant in &item.variants {
        refuse_cfg(&variant.attrs, &mut report);
        if !matches!(variant.fields, syn::Fields::Unit) {
            report.on(variant, messages::ENUM_FIELDS);
        }
    }
    if !report.is_empty() {
        return Err(report);
    }
    budget::spend(budget::OF_ITEM + 16 * item.variants.len());
    let name = names::device_type(&item.ident.to_string());
    let cuda = format!("{}enum class {name} : int", head(&item.attrs, item.enum_token.span));
    let variants = item.variants.iter().map(|variant| variant.ident.clone()).collect();
    Ok(DeviceTypeModel { name, cuda, variants, links: Links::default() })
}

/// Whether a field may have this type: no index of a hook, and no unit.
fn is_value(ty: &Ty) -> bool {
    match ty {
        Ty::F32 | Ty::I32 | Ty::U32 | Ty::U8 | Ty::U64 | Ty::I64 | Ty::Bool | Ty::Device(_) => true,
        Ty::Tuple(items) => items.iter().all(is_value),
        Ty::Array(elem, _) => is_value(elem),
        _ => false,
    }
}

/// Reports `#[cfg]`: the compiler would remove the part, but the text is made before that.
fn refuse_cfg(attrs: &[syn::Attribute], report: &mut Report) {
    for attr in attrs.iter().filter(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr")) {
        report.on(attr, messages::CFG_TYPE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: &TokenStream) -> String {
        let text = expand(TokenStream::new(), item.clone()).to_string();
        assert!(text.starts_with(&item.to_string()), "the item is kept: {text}");
        text
    }

    #[test]
    fn struct_text_has_fields_and_links() {
        let item = quote!(
            /// A line. \
            pub struct Line {
                slope: f32,
                r#int: (i32, [u8; 3]),
                mode: modes::Mode,
            }
        );
        let known = structure(&syn::parse2(item.clone()).expect("a struct")).expect("right");
        let text: Vec<&str> = known.cuda.lines().filter(|line| !line.starts_with("#line")).collect();
        assert_eq!(
            text[..9],
            [
                "/// A line.",
                "struct Line_type {",
                "  float slope;",
                "  Tuple2<int, Array<u8, 3>> int_;",
                "  Mode_type mode;",
                "  ATTN_FN Line_type with_slope(float to) const {",
                "    Line_type changed = *this;",
                "    changed.slope = to;",
                "    return changed;",
            ]
        );
        let text = expanded(&item).replace(' ', "");
        assert!(
            text.contains("TypeLink{name:\"Mode_type\",ty:<modes::Modeas::attn::__private::lang::DeviceType>::DESC}"),
            "{text}"
        );
        assert!(text.contains("values_are_copied::<Line>()"), "{text}");
    }

    #[test]
    fn enum_descriptor_has_values() {
        let text = expanded(&quote!(
            enum Mode {
                Near,
                r#Auto = 3 + N,
            }
        ));
        let text = text.replace(' ', "");
        assert!(text.contains("(\"Near\",::attn::__private::lang::device_type::value(Mode::Nearasi128))"), "{text}");
        assert!(text.contains("(\"Auto\",::attn::__private::lang::device_type::value(Mode::r#Autoasi128))"), "{text}");
        assert!(text.contains("enumclassMode_type:int"), "{text}");
    }

    #[test]
    fn refused_types_are_reported_and_kept() {
        for (item, want) in [
            ("struct Line<T> { slope: T }", messages::GENERIC_TYPE),
            ("struct Nothing;", messages::TYPE_WITHOUT_FIELDS),
            ("struct Five(f32, f32, f32, f32, f32);", messages::TUPLE_STRUCT_SIZE),
            ("struct Unit { x: () }", messages::FIELD_TYPE),
            ("struct At { at: RowIndex }", messages::FIELD_TYPE),
            ("struct Name { name: String }", messages::TYPE),
            ("struct Wide { x: f64 }", messages::FLOAT64),
            ("struct Some { #[cfg(test)] x: f32 }", messages::CFG_TYPE),
            ("enum Shape { Line(f32) }", messages::ENUM_FIELDS),
            ("enum None {}", messages::EMPTY_ENUM),
            ("fn f() {}", messages::NOT_A_TYPE),
        ] {
            let text = expanded(&item.parse().expect("tokens"));
            assert!(text.contains(&format!("{want:?}")), "no `{want}` in {text}");
        }
    }
}
