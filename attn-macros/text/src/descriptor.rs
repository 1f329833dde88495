//! Makes descriptors of what the macros emitted.

use attn_core::lang::{
    ConstValue, DeviceFn, FieldDesc, FieldType, Hook, HookText, Normalizer, VariantDesc,
    desc::{ConstDesc, ConstSource, MaskText},
    device_type::{TypeDesc, TypeLink},
};
use syn::{Expr, ExprStruct};

use crate::{
    expansion::{field, is_true, last_name, list, string, strings, text},
    kept::{kept, kept_list, kept_str},
    variant::{VariantText, make},
};

/// What a descriptor names.
pub(crate) struct Links {
    pub(crate) consts: &'static [ConstDesc],
    pub(crate) device_fns: &'static [&'static DeviceFn],
    pub(crate) types: &'static [TypeLink],
}

/// What the struct and the impl say of a variant beside what the macro emitted.
pub(crate) struct OfItems {
    /// The name of the file.
    pub(crate) file: &'static str,
    /// The doc comment of the struct.
    pub(crate) struct_doc: String,
    pub(crate) normalizer: Normalizer,
    pub(crate) max_floor: Option<f32>,
    pub(crate) fields: &'static [FieldDesc],
}

/// The descriptor of a variant. `cuda` gives the text of a string with the file's name in its `#line`s.
pub(crate) fn variant(
    emitted: &ExprStruct,
    links: &Links,
    of: &OfItems,
    cuda: &dyn Fn(String) -> &'static str,
    variant_text: VariantText,
) -> &'static VariantDesc {
    let hook = |expr: &Expr| {
        let Expr::Struct(hook) = expr else { return None };
        let Some(Expr::Path(kind)) = field(hook, "hook") else { return None };
        let kind = last_name(&kind.path);
        let hook_kind = Hook::ALL.into_iter().find(|known| format!("{known:?}") == kind)?;
        Some(HookText { hook: hook_kind, cuda: cuda(text(hook, "cuda")) })
    };
    let mask = match field(emitted, "mask") {
        Some(Expr::Struct(mask)) => MaskText {
            over: cuda(text(mask, "over")),
            bounds: cuda(text(mask, "bounds")),
            remap: cuda(text(mask, "remap")),
            tables: names(strings(mask, "tables")),
            why_not: kept_str(text(mask, "why_not")),
        },
        _ => MaskText::NONE,
    };
    let doc = field(emitted, "doc").and_then(string).unwrap_or_else(|| of.struct_doc.clone());
    let line = match field(emitted, "line") {
        Some(Expr::Lit(lit)) => match &lit.lit {
            syn::Lit::Int(line) => line.base10_parse().unwrap_or(0),
            _ => 0,
        },
        _ => 0,
    };
    let word = |name: &str| cuda(text(emitted, name));
    kept(VariantDesc {
        name: kept_str(text(emitted, "name")),
        type_name: kept_str(text(emitted, "type_name")),
        doc: kept_str(doc),
        file: of.file,
        line,
        hooks: kept_list(list(emitted, "hooks").into_iter().filter_map(hook).collect()),
        normalizer: of.normalizer,
        max_floor: of.max_floor.unwrap_or(f32::NEG_INFINITY), // as the trait has it
        fields: of.fields,
        mask,
        bias: word("bias"),
        slope: word("slope"),
        bias_row: word("bias_row"),
        bound: word("bound"),
        divisors: names(strings(emitted, "divisors")),
        stores: is_true(emitted, "stores"),
        slots: is_true(emitted, "slots"),
        kv_coordinates: names(strings(emitted, "kv_coordinates")),
        device_fns: links.device_fns,
        types: links.types,
        consts: links.consts,
        make,
        text: Some(kept(variant_text)),
    })
}

fn names(names: Vec<String>) -> &'static [&'static str] {
    kept_list(names.into_iter().map(kept_str).collect())
}

/// The constants of an emitted list `&[ConstDesc { .. }]`, each with the path that it was written by.
pub(crate) fn const_paths(emitted: &ExprStruct) -> Vec<(String, syn::Path)> {
    let entry = |expr: &Expr| {
        let Expr::Struct(entry) = expr else { return None };
        Some((text(entry, "name"), path_within(field(entry, "value")?)?))
    };
    list(emitted, "consts").into_iter().filter_map(entry).collect()
}

/// The paths of the helpers of an emitted list.
pub(crate) fn helper_paths(emitted: &ExprStruct) -> Vec<syn::Path> {
    let entry = |expr: &Expr| {
        let Expr::Call(call) = expr else { return None };
        let Some(Expr::Block(block)) = call.args.get(1) else { return None };
        block.block.stmts.iter().find_map(|stmt| match stmt {
            syn::Stmt::Item(syn::Item::Use(item)) => renamed(&item.tree, &mut Vec::new()),
            _ => None,
        })
    };
    list(emitted, "device_fns").into_iter().filter_map(entry).collect()
}

/// The path before `as __helper`.
fn renamed(tree: &syn::UseTree, before: &mut Vec<syn::Ident>) -> Option<syn::Path> {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.clone());
            renamed(&path.tree, before)
        }
        syn::UseTree::Rename(rename) if rename.rename == "__helper" => {
            before.push(rename.ident.clone());
            let segments = before.drain(..).map(syn::PathSegment::from).collect();
            Some(syn::Path { leading_colon: None, segments })
        }
        _ => None,
    }
}

/// The types of an emitted list `&[TypeLink { .. }]`: the name in the text, and the path.
pub(crate) fn type_paths(emitted: &ExprStruct) -> Vec<(String, syn::Path)> {
    let entry = |expr: &Expr| {
        let Expr::Struct(entry) = expr else { return None };
        Some((text(entry, "name"), qualified(field(entry, "ty")?)?))
    };
    list(emitted, "types").into_iter().filter_map(entry).collect()
}

/// The type of `<X as DeviceType>::DESC`, which may stand at the end of a block.
fn qualified(expr: &Expr) -> Option<syn::Path> {
    match expr {
        Expr::Path(path) => match &*path.qself.as_ref()?.ty {
            syn::Type::Path(ty) => Some(ty.path.clone()),
            _ => None,
        },
        Expr::Block(block) => match block.block.stmts.last()? {
            syn::Stmt::Expr(expr, None) => qualified(expr),
            _ => None,
        },
        _ => None,
    }
}

/// The path inside calls and closures: `Compiled(|| value(PATH))`.
fn path_within(expr: &Expr) -> Option<syn::Path> {
    match expr {
        Expr::Path(path) => Some(path.path.clone()),
        Expr::Call(call) => path_within(call.args.first()?),
        Expr::Closure(closure) => path_within(&closure.body),
        Expr::Block(block) => match block.block.stmts.last()? {
            syn::Stmt::Expr(expr, None) => path_within(expr),
            _ => None,
        },
        _ => None,
    }
}

/// The descriptor of a type.
pub(crate) fn device_type(
    emitted: &ExprStruct,
    values: &[i32],
    types: &'static [TypeLink],
    cuda: &dyn Fn(String) -> &'static str,
) -> &'static TypeDesc {
    let entries = list(emitted, "variants").into_iter().filter_map(|entry| match entry {
        Expr::Tuple(tuple) => tuple.elems.first().and_then(string),
        _ => None,
    });
    let variants = entries.zip(values).map(|(name, value)| (kept_str(name), *value)).collect();
    kept(TypeDesc {
        name: kept_str(text(emitted, "name")),
        cuda: cuda(text(emitted, "cuda")),
        variants: kept_list(variants),
        types,
    })
}

/// The parameters of a struct, in the order that the derive emitted; `types` are those of its fields.
pub(crate) fn fields(derived: &[&ExprStruct], types: &[FieldType]) -> &'static [FieldDesc] {
    let option = |literal: &ExprStruct, name: &str| match field(literal, name) {
        Some(Expr::Call(call)) => call.args.first().and_then(string).map(kept_str),
        _ => None,
    };
    let descs = derived.iter().zip(types).map(|(literal, ty)| FieldDesc {
        name: kept_str(text(literal, "name")),
        doc: kept_str(text(literal, "doc")),
        ty: *ty,
        shape: kept_str(text(literal, "shape")),
        // the default of a tensor is a function
        default: option(literal, "default").filter(|_| matches!(ty, FieldType::Scalar(_))),
        require: option(literal, "require"),
        monotone: is_true(literal, "monotone"),
        mutable: is_true(literal, "mutable"),
        growing_axes: crate::expansion::number(literal, "growing_axes"),
    });
    kept_list(descs.collect())
}

/// A constant's descriptor.
pub(crate) fn constant(name: String, value: ConstValue) -> ConstDesc {
    ConstDesc { name: kept_str(name), value: ConstSource::Text(value) }
}
