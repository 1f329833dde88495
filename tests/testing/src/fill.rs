//! Fills required parameters of a variant: scalars by trial, tensors from the seed and their shape.

use attn::{Error, Variant};
use attn_core::expr::MissingTensor;
use attn_core::lang::desc::Elem;
use attn_core::lang::kv_format::RowBytes;
use attn_core::lang::{Dims, FieldDesc, FieldType, ParamValue, VariantDesc};
use attn_core::nearest::nearest;
use attn_core::registry::Registry;

use super::random::Random;
use super::{Case, Table, TestError, tables};

/// The most elements of a filled tensor.
const MAX_ELEMENTS: i64 = 1 << 24;

/// An expression of a registered variant with a value for each required scalar: for tools that look at every variant's
/// kernels, whose text does not depend on values. Tensors are left out; [`filled_variant`](crate::filled_variant())
/// fills them.
///
/// Values are tried until every `#[require(..)]` holds, those of the tensors too: first 1 and other values for all
/// parameters alike, then different ones.
///
/// # Errors
///
/// No value passes; the error is that of the first.
pub fn example_expression(desc: &VariantDesc, registry: &Registry) -> Result<String, TestError> {
    let fields: Vec<_> = desc.fields.iter().filter(|field| field.default.is_none()).filter_map(candidates).collect();
    let most = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
    let same = (0..most).map(|n| vec![n; fields.len()]);
    let different = (0..MAX_TRIALS).map(|n| {
        let mut rest = n;
        let digit = |(_, values): &(&FieldDesc, &[&str])| {
            let digit = rest % values.len();
            rest /= values.len();
            digit
        };
        fields.iter().map(digit).collect()
    });
    let dims = Case::new(desc.name).dims();
    let mut first = None;
    for choices in same.chain(different) {
        let given: Vec<_> =
            fields.iter().zip(choices).map(|((f, v), n)| format!("{}={}", f.name, v[n % v.len()])).collect();
        let expr = if given.is_empty() { desc.name.to_owned() } else { format!("{}({})", desc.name, given.join(", ")) };
        match self::variant(&expr, registry, &dims, 0) {
            Ok(_) => return Ok(expr),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    // there is always a first trial
    first.map_or_else(|| Ok(desc.name.to_owned()), Err)
}

/// The most expressions that [`example_expression`] tries besides those with one value for all parameters.
const MAX_TRIALS: usize = 4096;

/// The values to try for a scalar; `None` for a tensor.
fn candidates(field: &FieldDesc) -> Option<(&FieldDesc, &'static [&'static str])> {
    let FieldType::Scalar(elem) = field.ty else { return None };
    Some(match elem {
        Elem::Bool => (field, &["true", "false"]),
        Elem::I32 | Elem::U32 | Elem::U8 => (field, &["1", "0", "2", "16", "128"]),
        _ => (field, &["1", "0.5", "0", "2", "100"]),
    })
}

/// The variant of an expression with all required parameters filled.
///
/// Floats are N(0, 1). Integers are in `0..4` and sorted along the last axis. Bools are random. `#[monotone]` tensors
/// are sorted.
pub(super) fn variant(text: &str, registry: &Registry, dims: &Dims, seed: u64) -> Result<Variant, TestError> {
    let case = Case { seed, ..Case::new(text) };
    complete(&Variant::parse_with(text, registry).map_err(Error::from)?, dims, &case)
}

/// [`variant()`] of a variant over the lengths of a case, with the case's seed. Parameters that hold a [`Table`] of
/// these lengths have it; `dims` are those of the shapes.
///
/// [`Table`]: super::Table
///
/// If a `#[require(..)]` does not hold for these values, others are tried; if it holds for none, the first stay.
pub(super) fn complete(variant: &Variant, dims: &Dims, case: &Case) -> Result<Variant, TestError> {
    let missing = variant.missing(dims).map_err(Error::from)?;
    let names: Vec<&str> = variant.parts().map(|part| part.desc().name).collect();
    check_tables(case, &missing, &names)?;
    let made = |shift: Shift| {
        let mut variant = variant.clone();
        for (stream, tensor) in missing.iter().enumerate() {
            let Some(name) = names.get(tensor.part) else {
                let format = tensor.part - names.len();
                let value = steps(&variant, format, tensor, case)?;
                variant.set_in(tensor.part, tensor.field.name, value).map_err(Error::from)?;
                continue;
            };
            let named = case.tables.contains_key(&format!("{name}.{}", tensor.field.name));
            let table = tables::of(case, name, tensor.field.name).filter(|_| named || matches!(shift, Shift::None));
            let mut random = Random::new(case.seed, 1000 + stream as u64);
            let value = match generators::of(tensor.field.name, dims, &mut random) {
                Some(values) => generators::checked(tensor, values)?,
                None => match table.and_then(|table| of_table(tensor, table, case)) {
                    Some(value) => value,
                    None if named => {
                        let why = format!("`{name}.{}` has another shape or type than its table", tensor.field.name);
                        return Err(TestError::Field { field: "tables", why });
                    }
                    None => values_for(tensor, &mut random, shift)?,
                },
            };
            variant.set_in(tensor.part, tensor.field.name, value).map_err(Error::from)?;
        }
        Ok::<_, TestError>(variant)
    };
    let first = made(Shift::None);
    if missing.is_empty() || first.as_ref().is_ok_and(|variant| variant.bind(dims).is_ok()) {
        return first;
    }
    let allowed = |shift| made(shift).ok().filter(|variant| variant.bind(dims).is_ok());
    [Shift::Above, Shift::Between, Shift::Below].into_iter().find_map(allowed).map_or(first, Ok)
}

/// Refuses a table of what is no tensor that is filled.
fn check_tables(case: &Case, missing: &[MissingTensor], names: &[&str]) -> Result<(), TestError> {
    let filled = missing.iter().filter_map(|tensor| Some(format!("{}.{}", names.get(tensor.part)?, tensor.field.name)));
    let filled: Vec<String> = filled.collect();
    match case.tables.keys().find(|name| !filled.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let hint = nearest(name, filled.iter().map(String::as_str));
            let hint = hint.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let why = format!("`{name}` is no tensor that the expression leaves out{hint}");
            Err(TestError::Field { field: "tables", why })
        }
    }
}

/// Values for a tensor of the format of keys (0) or of values: of floats, the steps of its codes where rows are N(0,
/// 1), each somewhat different. They do not depend on the variant.
fn steps(variant: &Variant, format: usize, tensor: &MissingTensor, case: &Case) -> Result<ParamValue, TestError> {
    let mut random = Random::new(case.seed, 2000 + format as u64);
    let floats = matches!(tensor.field.ty, FieldType::Tensor { elem: Elem::F32 | Elem::F16 | Elem::Bf16, .. });
    let (Some(shape), Some(formats), true) = (&tensor.shape, variant.kv_formats(), floats) else {
        return values_for(tensor, &mut random, Shift::None);
    };
    let dim = if format == 0 { case.head_dim } else { case.head_dim_vo.dim(case.heads()) };
    let bits = 8 * RowBytes::of(formats.part(format), dim).codes / dim.max(1) as usize;
    let step = 4.0 / f64::from(1u32 << bits.clamp(2, 9).saturating_sub(1));
    let mut values = std::iter::repeat_with(|| ParamValue::Float(step * (0.75 + random.below(513) as f64 / 1024.0)));
    Ok(ParamValue::nested(shape, &mut values))
}

mod generators;
pub use generators::{Generator, generator, with_generators};

/// The range of filled numbers.
#[derive(Clone, Copy)]
enum Shift {
    /// N(0, 1), and `0..4`.
    None,
    /// Above 0.
    Above,
    /// Above 0 and below 1; integers from 1 on.
    Between,
    /// Below 0.
    Below,
}

impl Shift {
    fn float(self, x: f32) -> f32 {
        match self {
            Shift::None => x,
            Shift::Above => x.abs() + 0.125,
            Shift::Between => 1.0 / (x.abs() + 1.125),
            Shift::Below => -x.abs() - 0.125,
        }
    }

    fn integer(self, x: i64) -> i64 {
        match self {
            Shift::None => x,
            Shift::Above | Shift::Between => x + 1,
            Shift::Below => x - 4,
        }
    }
}

/// The values of a table; `None` for a tensor of another shape or of floats.
fn of_table(tensor: &MissingTensor, table: Table, case: &Case) -> Option<ParamValue> {
    let (FieldType::Tensor { elem, .. }, Some(shape)) = (tensor.field.ty, &tensor.shape) else { return None };
    let value = |x: i64| match elem {
        Elem::Bool | Elem::Bits => Some(ParamValue::Bool(x != 0)),
        Elem::I32 | Elem::U32 | Elem::U8 => Some(ParamValue::Int(x)),
        _ => None,
    };
    let values: Option<Vec<_>> = table.elements(case, shape)?.into_iter().map(value).collect();
    Some(ParamValue::nested(shape, &mut values?.into_iter()))
}

fn values_for(tensor: &MissingTensor, random: &mut Random, shift: Shift) -> Result<ParamValue, TestError> {
    let field = tensor.field;
    let bad = |why: String| TestError::Shape { name: field.name.to_owned(), shape: field.shape.to_owned(), why };
    let Some(shape) = &tensor.shape else { return Err(bad("it names a size that is not known here".to_owned())) };
    let count = shape.iter().try_fold(1i64, |n, &x| n.checked_mul(x)).unwrap_or(i64::MAX);
    if shape.iter().any(|&x| x < 1) || count > MAX_ELEMENTS {
        return Err(bad(format!("extents {shape:?} are not in 1 to {MAX_ELEMENTS} elements")));
    }
    let (FieldType::Tensor { elem, .. } | FieldType::Scalar(elem)) = field.ty else {
        // an output tensor starts with zeros
        return Ok(ParamValue::nested(shape, &mut std::iter::repeat(ParamValue::Float(0.0))));
    };
    let count = count as usize;
    let values: Vec<ParamValue> = match elem {
        Elem::Bool | Elem::Bits => {
            let mut bools: Vec<bool> = (0..count).map(|_| random.below(2) == 1).collect();
            sort(&mut bools, shape, field.monotone, bool::cmp);
            bools.into_iter().map(ParamValue::Bool).collect()
        }
        Elem::I32 | Elem::U32 | Elem::U8 => {
            let mut whole: Vec<i64> = (0..count).map(|_| shift.integer(random.below(4) as i64)).collect();
            sort(&mut whole, shape, true, i64::cmp);
            whole.into_iter().map(ParamValue::Int).collect()
        }
        _ => {
            // every float type represents values within five standard deviations
            let mut floats: Vec<f32> = (0..count).map(|_| shift.float(random.normal())).collect();
            sort(&mut floats, shape, field.monotone, f32::total_cmp);
            floats.into_iter().map(|x| ParamValue::Float(f64::from(x))).collect()
        }
    };
    Ok(ParamValue::nested(shape, &mut values.into_iter()))
}

/// Sorts the values along the last axis, if `wanted`.
fn sort<T>(values: &mut [T], shape: &[i64], wanted: bool, order: impl Fn(&T, &T) -> std::cmp::Ordering) {
    let row = shape.last().map_or(1, |&n| n as usize);
    if wanted {
        values.chunks_mut(row).for_each(|row| row.sort_by(&order));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::{VariantParams, attention_variant, f16};
    use attn_core::lang::{AttentionVariant, Bits, LogitIndex, Tensor0, Tensor1, Tensor2, Tensor3};

    #[test]
    fn missing_tensors_are_filled_from_the_seed() {
        let mut registry = Registry::empty();
        registry.register_all(attn::stock::variants()).expect("no two share a name");
        let dims = Dims { qo_heads: Some(6), ..Dims::default() };
        let made = |seed| variant("causal + sink", &registry, &dims, seed).expect("sink has a shape over heads");
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        made(1).bind(&dims).expect("nothing is missing");
        let given = variant("sink(logits=[1, 2, 3, 4, 5, 6])", &registry, &dims, 1).expect("complete");
        assert_eq!(given.to_string(), "sink(logits=[1, 2, 3, 4, 5, 6])");
        let unknown = variant("sink", &registry, &Dims::default(), 1).expect_err("heads are not known");
        assert!(matches!(unknown, TestError::Shape { .. }), "{unknown}");
    }

    /// Scalars for which 1 is invalid and which differ from each other, and a tensor.
    #[derive(Clone, VariantParams)]
    struct Picky {
        #[require(rate < 1.0)]
        rate: f32,
        #[require(step > 1)]
        step: i32,
        #[require(less < step)]
        less: i32,
        on: bool,
        #[shape(step)]
        steps: Tensor1<f32>,
    }

    #[attention_variant(name = "picky_of_fill")]
    impl AttentionVariant for Picky {
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            let far = if self.on { self.less as f32 } else { self.steps[at.kv_pos % self.step] };
            logit * self.rate + far
        }
    }

    /// A condition that no number meets.
    #[derive(Clone, VariantParams)]
    struct Never {
        #[require(x < 0.0 && x > 0.0)]
        x: f32,
    }

    #[attention_variant(name = "never_of_fill")]
    impl AttentionVariant for Never {
        fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
            logit * self.x
        }
    }

    #[test]
    fn every_variant_has_an_expression() {
        let mut registry = Registry::empty();
        registry.register_all(attn::stock::variants()).expect("no two share a name");
        for desc in registry.iter() {
            let expr = example_expression(desc, &registry).expect(desc.name);
            variant(&expr, &registry, &Case::new("full").dims(), 0).expect(&expr);
        }
        let of = |name: &str| example_expression(registry.get(name).expect(name), &registry).expect(name);
        assert_eq!([of("soft_cap"), of("dropout"), of("sink")], ["soft_cap(cap=1)", "dropout(rate=0.5)", "sink"]);

        registry.register_all(attn::variants![Picky, Never]).expect("no two share a name");
        let of = |name: &str| example_expression(registry.get(name).expect(name), &registry);
        let picky = of("picky_of_fill").expect("there are values");
        Variant::parse_with(&picky, &registry).expect("it is an expression");
        let error = of("never_of_fill").expect_err("there is none").to_string();
        assert!(error.contains("`x` = 1"), "{error}");
    }

    /// Tensors of several types without defaults.
    #[derive(Clone, VariantParams)]
    struct Tables {
        #[shape(2, 3, 40)]
        #[monotone]
        bias: Tensor3<f16>,
        #[shape(2, 40)]
        #[monotone]
        on: Tensor2<Bits>,
        #[shape(qo_heads, 5)]
        group: Tensor2<u8>,
        scale: Tensor0<f32>,
    }

    #[attention_variant(name = "tables_of_fill")]
    impl AttentionVariant for Tables {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            self.on[[at.qo_head, at.kv_pos]] && self.group[[at.qo_head, at.kv_pos]] < 9
        }
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            logit * self.scale.get() + self.bias[[at.kv_head, at.qo_head, at.kv_pos]]
        }
    }

    #[test]
    fn tensors_of_every_rank_are_filled_and_sorted_if_monotone() {
        let mut registry = Registry::empty();
        registry.register_all(attn::variants![Tables]).expect("no two share a name");
        let dims = Dims { qo_heads: Some(6), ..Dims::default() };
        let made = variant("tables_of_fill", &registry, &dims, 3).expect("shapes are known");
        made.bind(&dims).expect("sorted where it is monotone");
        assert!(made.to_string().contains("on=[[false, "), "both bools: {made}");
    }
}
