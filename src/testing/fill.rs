//! Tensor parameters of a variant that were not given and have no default: filled from the seed, by their shape.

use crate::expr::MissingTensor;
use crate::lang::desc::Elem;
use crate::lang::{Dims, FieldType, ParamValue};
use crate::registry::Registry;
use crate::{Error, Variant};

use super::TestError;
use super::random::Random;

/// The most elements that are made up for one tensor.
const MAX_ELEMENTS: i64 = 1 << 24;

/// The variant of an expression, complete: what a user would have to give is made up.
///
/// Floats are N(0, 1); integers are in `0..4` and sorted, so that they serve as document numbers.
pub(super) fn variant(text: &str, registry: &Registry, dims: &Dims, seed: u64) -> Result<Variant, TestError> {
    let mut variant = Variant::parse_with(text, registry).map_err(Error::from)?;
    for (stream, tensor) in variant.missing(dims).map_err(Error::from)?.iter().enumerate() {
        let value = values_for(tensor, &mut Random::new(seed, 1000 + stream as u64))?;
        variant.set_in(tensor.part, tensor.field.name, value).map_err(Error::from)?;
    }
    Ok(variant)
}

fn values_for(tensor: &MissingTensor, random: &mut Random) -> Result<ParamValue, TestError> {
    let field = tensor.field;
    let bad = |why: String| TestError::Shape { name: field.name.to_owned(), shape: field.shape.to_owned(), why };
    let Some(shape) = &tensor.shape else { return Err(bad("it names a size that is not known here".to_owned())) };
    let count = shape.iter().try_fold(1i64, |n, &x| n.checked_mul(x)).unwrap_or(i64::MAX);
    if shape.iter().any(|&x| x < 1) || count > MAX_ELEMENTS {
        return Err(bad(format!("extents {shape:?} are not in 1 to {MAX_ELEMENTS} elements")));
    }
    let elem = match field.ty {
        FieldType::Tensor { elem, .. } | FieldType::Scalar(elem) => elem,
    };
    let mut flat: Vec<ParamValue> = match elem {
        Elem::F32 => (0..count).map(|_| ParamValue::Float(f64::from(random.normal()))).collect(),
        _ => {
            let mut whole: Vec<i64> = (0..count).map(|_| random.below(4) as i64).collect();
            whole.sort_unstable();
            whole.into_iter().map(ParamValue::Int).collect()
        }
    };
    if let [_, columns] = shape[..] {
        flat = flat.chunks(columns as usize).map(|row| ParamValue::List(row.to_vec())).collect();
    }
    Ok(ParamValue::List(flat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_made_up_from_the_seed() {
        let mut registry = Registry::empty();
        registry.register_all(attn_variants::variants()).expect("no two share a name");
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
}
