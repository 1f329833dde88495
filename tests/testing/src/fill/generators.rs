//! Values of parameters that a test makes itself.

use std::cell::RefCell;

use attn::Variant;
use attn_core::expr::MissingTensor;
use attn_core::lang::{Dims, ParamValue};

use crate::{TestError, random::Random};

/// Elements of a tensor in row-major order.
pub trait IntoElements {
    /// Makes them values of a parameter.
    fn into_elements(self) -> Vec<ParamValue>;
}

impl IntoElements for Vec<f32> {
    fn into_elements(self) -> Vec<ParamValue> {
        self.into_iter().map(|x| ParamValue::Float(f64::from(x))).collect()
    }
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl IntoElements for Vec<$number> {
            fn into_elements(self) -> Vec<ParamValue> {
                self.into_iter().map(|x| ParamValue::Int(i64::from(x))).collect()
            }
        }
    )*};
}
whole_numbers!(i32, u32, u8);

impl IntoElements for Vec<bool> {
    fn into_elements(self) -> Vec<ParamValue> {
        self.into_iter().map(ParamValue::Bool).collect()
    }
}

/// The name of a parameter, and what makes its elements.
pub type Generator = (String, Box<dyn Fn(&Dims, &mut Random) -> Vec<ParamValue>>);

thread_local! {
    /// The generators of the property that this thread tests.
    static GENERATORS: RefCell<Vec<Generator>> = const { RefCell::new(Vec::new()) };
}

/// A generator of the parameter of this name. The signature lets rustc infer the arguments of a closure.
pub fn generator<E: IntoElements>(name: &str, make: impl Fn(&Dims, &mut Random) -> E + 'static) -> Generator {
    (name.to_owned(), Box::new(move |dims, random| make(dims, random).into_elements()))
}

/// Calls `test`, in which tensors that are not given have the elements that `generators` make, each for the parameter
/// of its name.
///
/// # Panics
///
/// The variant has no parameter of a name.
pub fn with_generators<R>(variant: &Variant, generators: Vec<Generator>, test: impl FnOnce(&Variant) -> R) -> R {
    for (name, _) in &generators {
        let has = variant.parts().any(|part| part.desc().fields.iter().any(|field| field.name == name));
        assert!(has, "`{variant}` has no parameter `{name}`");
    }
    /// Restores what was there, also when the test panics.
    struct Before(Vec<Generator>);
    impl Drop for Before {
        fn drop(&mut self) {
            GENERATORS.set(std::mem::take(&mut self.0));
        }
    }
    let _before = Before(GENERATORS.replace(generators));
    test(variant)
}

/// The elements that a generator makes for the tensor of this name.
pub(super) fn of(name: &str, dims: &Dims, random: &mut Random) -> Option<Vec<ParamValue>> {
    GENERATORS.with_borrow(|generators| {
        let (_, generator) = generators.iter().find(|(there, _)| there == name)?;
        Some(generator(dims, random))
    })
}

/// The elements as the value of a tensor, if there are as many as its shape says.
pub(super) fn checked(tensor: &MissingTensor, values: Vec<ParamValue>) -> Result<ParamValue, TestError> {
    let bad = |why: String| {
        let (name, shape) = (tensor.field.name.to_owned(), tensor.field.shape.to_owned());
        TestError::Shape { name, shape, why }
    };
    let Some(shape) = &tensor.shape else { return Err(bad("it names a size that is not known here".to_owned())) };
    let wanted: i64 = shape.iter().product();
    match values.len() as i64 == wanted {
        true => Ok(ParamValue::nested(shape, &mut values.into_iter())),
        false => Err(bad(format!("the test makes {} elements for extents {shape:?}", values.len()))),
    }
}
