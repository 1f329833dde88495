//! Makes descriptors of the models of variants, helpers and types.

use attn_codegen::device_type::DeviceTypeModel;
use attn_codegen::names;
use attn_codegen::params::Field;
use attn_codegen::variant::{Named, VariantModel};
use attn_core::lang::desc::{ConstDesc, CoordinateRead, MaskText};
use attn_core::lang::device_type::{TypeDesc, TypeLink};
use attn_core::lang::{DeviceFn, FieldDesc, FieldType, Hook, HookText, Normalizer, VariantDesc};

use crate::kept::{kept, kept_list, kept_str};
use crate::tile_form::{Names, TileForm};
use crate::variant::{VariantText, make};

/// What a descriptor names.
pub(crate) struct Links {
    pub(crate) consts: &'static [ConstDesc],
    pub(crate) device_fns: &'static [&'static DeviceFn],
    pub(crate) types: &'static [TypeLink],
    /// The helpers over abstract values.
    pub(crate) over: Vec<(&'static str, &'static TileForm)>,
}

impl Links {
    /// What names in a form over abstract values stand for.
    pub(crate) fn names<'a>(&'a self, fields: &'a [FieldDesc]) -> Names<'a> {
        Names { fields, consts: self.consts, types: self.types, helpers: &self.over }
    }
}

/// What the struct and the impl say of a variant beside its model.
pub(crate) struct OfItems {
    /// The name of the file.
    pub(crate) file: &'static str,
    /// The doc comment of the struct.
    pub(crate) struct_doc: String,
    pub(crate) normalizer: Normalizer,
    pub(crate) max_floor: Option<f32>,
    pub(crate) fields: &'static [FieldDesc],
}

/// The descriptor of an instance of a variant. `cuda` gives a text with the file's name in its `#line`s.
pub(crate) fn variant(
    model: &VariantModel,
    instance: &Named,
    links: &Links,
    of: &OfItems,
    cuda: &dyn Fn(&str) -> &'static str,
    variant_text: VariantText,
) -> &'static VariantDesc {
    let hooks =
        model.hooks.iter().filter_map(|text| Some(HookText { hook: hook_of(&text.name)?, cuda: cuda(&text.cuda) }));
    let coordinates = model.coordinates.iter().filter_map(|read| {
        let hook = hook_of(&read.hook)?;
        Some(CoordinateRead { hook, coordinate: read.coordinate, is_index: read.is_index })
    });
    let mask = &model.mask;
    kept(VariantDesc {
        name: kept_str(instance.name.clone()),
        type_name: kept_str(model.type_name.clone()),
        doc: kept_str(if model.doc.is_empty() { &of.struct_doc } else { &model.doc }.clone()),
        file: of.file,
        line: model.line,
        hooks: kept_list(hooks.collect()),
        normalizer: of.normalizer,
        max_floor: of.max_floor.unwrap_or(f32::NEG_INFINITY), // as the trait has it
        fields: of.fields,
        mask: MaskText {
            over: cuda(&mask.over),
            bounds: cuda(&mask.bounds),
            remap: cuda(&mask.remap),
            tables: kept_names(&mask.tables),
            why_not: mask.why_not,
        },
        bias: cuda(&model.bias),
        slope: cuda(&model.slope),
        bias_row: cuda(&model.bias_row),
        bound: cuda(&model.bound),
        divisors: kept_names(model.used.divisors.keys()),
        stores: model.used.stores,
        slots: model.used.slots,
        coordinates: kept_list(coordinates.collect()),
        device_fns: links.device_fns,
        types: links.types,
        consts: links.consts,
        make,
        text: Some(kept(variant_text)),
    })
}

fn hook_of(method: &str) -> Option<Hook> {
    Hook::ALL.into_iter().find(|hook| hook.method() == method)
}

fn kept_names<'a>(names: impl IntoIterator<Item = &'a String>) -> &'static [&'static str] {
    kept_list(names.into_iter().map(|name| kept_str(name.clone())).collect())
}

/// The descriptor of a type; `values` are those of an enum's variants.
pub(crate) fn device_type(
    model: &DeviceTypeModel,
    values: &[i32],
    types: &'static [TypeLink],
    cuda: &dyn Fn(&str) -> &'static str,
) -> &'static TypeDesc {
    let variants = model.variants.iter().zip(values);
    let variants = variants.map(|(name, value)| (kept_str(names::within_type(&name.to_string())), *value));
    kept(TypeDesc {
        name: kept_str(model.name.clone()),
        cuda: cuda(&model.cuda),
        variants: kept_list(variants.collect()),
        types,
    })
}

/// The descriptor of a parameter.
pub(crate) fn field(model: &Field, ty: FieldType) -> FieldDesc {
    FieldDesc {
        name: kept_str(model.name.clone()),
        doc: kept_str(model.doc.clone()),
        ty,
        shape: model.shape.as_ref().map_or("", |shape| kept_str(shape.text.clone())),
        // the default of a tensor is a function
        default: model
            .default
            .as_ref()
            .filter(|_| matches!(ty, FieldType::Scalar(_)))
            .map(|default| kept_str(default.text.clone())),
        require: model.require.as_ref().map(|require| kept_str(require.text.clone())),
        monotone: model.monotone,
        mutable: model.mutable,
        growing_axes: model.growing_axes,
    }
}
