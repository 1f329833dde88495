//! A variant that was read from text, with its parameters.

use attn_core::lang::derive_support::{ParamReader, ShapeProblem, require_failed};
use attn_core::lang::params::{ArgVisitor, ErasedParams, RequireError};
use attn_core::lang::{
    BindError, Dims, ErasedVariant, FieldType, Hook, KvIndex, LogitIndex, Normalizer, ParamError, ParamValues,
    QueryTile, RowIndex, RowState, Tile, Tristate, VariantDesc,
};

use crate::condition::{Ex, Names, Number, Stop};
use crate::field::{Value, unset, written};
use crate::tile_form::TileForm;

/// What a variant's text says of its parameters and of its mask: [`VariantDesc::text`].
#[derive(Debug)]
pub(crate) struct VariantText {
    pub(crate) params: Vec<ParamText>,
    /// The mask over a tile.
    pub(crate) mask_over: Option<TileForm>,
}

/// The attributes of a parameter.
#[derive(Clone, Debug)]
pub(crate) struct ParamText {
    pub(crate) default: Option<Number>,
    pub(crate) require: Option<Ex>,
    pub(crate) shape: Vec<Ex>,
}

/// [`VariantDesc::make`] of a variant that was read from text.
pub(crate) fn make(desc: &'static VariantDesc, values: &ParamValues) -> Result<Box<dyn ErasedVariant>, ParamError> {
    let text = desc.text.and_then(|text| text.downcast_ref::<VariantText>()).expect("a descriptor of `descriptor`");
    if let Some(of_host) = desc.hooks.iter().find(|text| runs_on_host(text.hook)) {
        return Err(ParamError::HostHook { variant: desc.name.to_owned(), hook: of_host.hook.method() });
    }
    ParamReader::new(values, desc.fields)?;
    let mut made = TextVariant { desc, text, fields: desc.fields.iter().map(|field| unset(field.ty)).collect() };
    for ((field, param), value) in desc.fields.iter().zip(&text.params).zip(&mut made.fields) {
        match (values.get(field.name), param.default, field.ty) {
            (Some(given), ..) => value.set(field.name, given)?,
            (None, Some(default), FieldType::Scalar(_)) => value.set(field.name, &written(default))?,
            (None, None, FieldType::Scalar(_)) => {
                return Err(ParamError::Missing { name: field.name.to_owned(), ty: field.ty.to_string() });
            }
            // binding refuses a tensor that is not set
            (None, _, FieldType::Tensor { .. } | FieldType::Out { .. }) => {}
        }
    }
    made.require(&Dims::default())?;
    Ok(Box::new(made))
}

/// Whether the host calls a hook when it plans.
fn runs_on_host(hook: Hook) -> bool {
    use Hook as H;
    let lists = [H::KvListLen, H::KvListBlock, H::KvListBlockSize, H::KvListQueries];
    matches!(hook, H::KvRange | H::RemapQoPos | H::RemapKvPos) || lists.contains(&hook)
}

struct TextVariant {
    desc: &'static VariantDesc,
    text: &'static VariantText,
    fields: Vec<Box<dyn Value>>,
}

impl TextVariant {
    fn require(&self, dims: &Dims) -> Result<(), RequireError> {
        for ((field, param), value) in self.desc.fields.iter().zip(&self.text.params).zip(&self.fields) {
            let scope = InScope { of: self, dims };
            let checked = param.require.as_ref().filter(|require| require.is_known(&scope));
            if checked.is_some_and(|require| require.truth(&scope) != Ok(true)) {
                return Err(require_failed(field, value.to_value()));
            }
        }
        Ok(())
    }
}

/// The names in an attribute: fields, then dimensions.
struct InScope<'a> {
    of: &'a TextVariant,
    dims: &'a Dims,
}

impl InScope<'_> {
    fn field(&self, name: &str) -> Option<&dyn Value> {
        let at = self.of.desc.fields.iter().position(|field| field.name == name)?;
        Some(&*self.of.fields[at])
    }
}

impl Names for InScope<'_> {
    fn number(&self, name: &str) -> Result<Number, Stop> {
        if let Some(field) = self.field(name) {
            return field.number().ok_or(Stop::Unknown);
        }
        let Dims { qo_heads, kv_heads, head_dim, value_dim, batch, qo_tokens, kv_tokens } = *self.dims;
        let dim = match name {
            "qo_heads" => qo_heads,
            "kv_heads" => kv_heads,
            "head_dim" => head_dim,
            "value_dim" => value_dim,
            "batch" => batch,
            "qo_tokens" => qo_tokens,
            "kv_tokens" => kv_tokens,
            _ => None,
        };
        dim.map(Number::Int).ok_or(Stop::Unknown)
    }

    fn elements(&self, name: &str) -> Result<Vec<Number>, Stop> {
        self.field(name).and_then(Value::elements).ok_or(Stop::Unknown)
    }
}

/// No caller gets here: the CPU backend refuses variants of text (`attn_core::cpu::check_variant`), and [`make`] those
/// with hooks of the host.
fn no_compiled_hooks() -> ! {
    unreachable!("a hook of Rust text was called on the host")
}

impl ErasedParams for TextVariant {
    fn set_values(&mut self, values: &ParamValues) -> Result<(), ParamError> {
        ParamReader::new(values, self.desc.fields)?;
        let fields = self.fields.iter().map(|field| field.clone_box()).collect();
        let mut changed = TextVariant { desc: self.desc, text: self.text, fields };
        for (field, value) in self.desc.fields.iter().zip(&mut changed.fields) {
            if let Some(given) = values.get(field.name) {
                value.set(field.name, given)?;
            }
        }
        changed.require(&Dims::default())?;
        *self = changed;
        Ok(())
    }
    fn to_values(&self) -> ParamValues {
        let mut values = ParamValues::default();
        for (field, value) in self.desc.fields.iter().zip(&self.fields) {
            if let Some(value) = value.to_value() {
                values.set(field.name, value);
            }
        }
        values
    }
    fn bind(&mut self, dims: &Dims) -> Result<(), BindError> {
        self.require(dims)?;
        for at in 0..self.fields.len() {
            if !matches!(self.desc.fields[at].ty, FieldType::Scalar(_)) {
                let want = self.shape(at, dims);
                self.fields[at].bind(&self.desc.fields[at], want)?;
            }
        }
        self.require(dims)?;
        Ok(())
    }
    fn shape(&self, field: usize, dims: &Dims) -> Result<Vec<i64>, ShapeProblem> {
        let extents = self.text.params.get(field).map_or(&[][..], |param| &param.shape);
        let extent = |extent: &Ex| {
            extent.integer(&InScope { of: self, dims }).map_err(|stop| match stop {
                Stop::Unknown => ShapeProblem::Unknown,
                Stop::Arithmetic => ShapeProblem::Arithmetic,
            })
        };
        extents.iter().map(extent).collect()
    }
    fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        self.fields.iter().for_each(|field| field.visit(visitor));
    }
}

impl ErasedVariant for TextVariant {
    fn desc(&self) -> &'static VariantDesc {
        self.desc
    }
    fn clone_box(&self) -> Box<dyn ErasedVariant> {
        let fields = self.fields.iter().map(|field| field.clone_box()).collect();
        Box::new(TextVariant { desc: self.desc, text: self.text, fields })
    }
    fn normalizer(&self) -> Normalizer {
        self.desc.normalizer
    }
    fn max_floor(&self) -> f32 {
        self.desc.max_floor
    }
    fn mask_over(&self, tile: &Tile) -> Tristate {
        self.text.mask_over.as_ref().map_or(Tristate::Unknown, |form| form.mask(tile, &self.fields))
    }
    fn remap_over(&self, tile: &Tile) -> Tile {
        *tile
    }

    fn query_row(&self, _: &mut [f32], _: RowIndex) {
        no_compiled_hooks()
    }
    fn key_row(&self, _: &mut [f32], _: KvIndex) {
        no_compiled_hooks()
    }
    fn logits_tile(&self, _: &mut [f32], _: LogitIndex) {
        no_compiled_hooks()
    }
    fn mask_tile(&self, _: &mut [bool], _: LogitIndex) {
        no_compiled_hooks()
    }
    fn weight_tile(&self, _: &mut [f32], _: f32, _: LogitIndex) {
        no_compiled_hooks()
    }
    fn value_row(&self, _: &mut [f32], _: KvIndex) {
        no_compiled_hooks()
    }
    fn denominator_tile(&self, _: &mut [f32], _: &[f32], _: f32, _: LogitIndex) {
        no_compiled_hooks()
    }
    fn sink_logit(&self, _: RowIndex) -> f32 {
        no_compiled_hooks()
    }
    fn output_row(&self, _: &mut [f32], _: RowState, _: RowIndex) {
        no_compiled_hooks()
    }
    fn kv_range(&self, _: QueryTile) -> (i32, i32) {
        (0, i32::MAX)
    }
    fn kv_list_len(&self, _: RowIndex) -> i32 {
        no_compiled_hooks()
    }
    fn kv_list_block(&self, _: RowIndex, _: i32) -> i32 {
        no_compiled_hooks()
    }
    fn kv_list_sizes(&self) -> (i32, i32) {
        no_compiled_hooks()
    }
    fn remap_qo_pos(&self, _: RowIndex) -> i32 {
        no_compiled_hooks()
    }
    fn remap_kv_pos(&self, _: KvIndex) -> i32 {
        no_compiled_hooks()
    }
}
