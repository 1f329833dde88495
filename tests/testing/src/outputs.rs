//! Output tensors of variants: fresh ones for every run, compared with the reference's.

use attn::{Error, Variant};
use attn_core::lang::param_tensor::OutBuffer;
use attn_core::lang::params::{ArgVisitor, TensorArg};
use attn_core::lang::{ErasedVariant, ParamValue};

use super::TestError;

/// The distance between the elements that a run and the reference store to output tensors (`OutTensor`).
///
/// Only elements that the reference stores count, as stores for masked logits are undefined. All tensors of a variant
/// count together.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct StoredOutputs {
    /// The number of elements that the reference stores.
    pub elements: u64,
    /// The largest `|stored - reference|`, relative to the larger of the reference and the root mean square of its
    /// elements in that tensor. This is the largest value of all runs: the first, a second one of the same plan, and
    /// one of another plan (a replayed graph if the case asks for it).
    pub stored_err: f64,
    /// Elements that should have changed but kept their starting value, in the run that has most of them.
    pub untouched: u64,
    /// NaNs where the reference has none, including elements that it does not store: nothing is stored for a slot
    /// without a key.
    pub nan: u64,
}

impl StoredOutputs {
    /// Whether the elements are within a relative difference.
    #[must_use]
    pub fn within(&self, tolerance: f64) -> bool {
        self.nan == 0 && self.stored_err <= tolerance
    }

    /// The worse of two runs.
    pub(super) fn worse(self, other: StoredOutputs) -> StoredOutputs {
        // `stored_err` is never NaN, because NaNs are counted in `nan`
        StoredOutputs {
            elements: self.elements.max(other.elements),
            stored_err: self.stored_err.max(other.stored_err),
            untouched: self.untouched.max(other.untouched),
            nan: self.nan.max(other.nan),
        }
    }

    /// Compares one tensor of a run with the reference's; both started with `start`.
    fn between(got: &[f32], want: &[f32], start: &[f32], tolerance: f64) -> StoredOutputs {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits();
        let kept = want.iter().zip(start).filter(|(want, start)| !same(**want, **start)).map(|(want, _)| *want);
        let finite: Vec<f64> = kept.map(f64::from).filter(|x| x.is_finite()).collect();
        let floor = (finite.iter().map(|x| x * x).sum::<f64>() / finite.len().max(1) as f64).sqrt();
        let mut stored = StoredOutputs::default();
        for ((&got, &want), &start) in got.iter().zip(want).zip(start) {
            let there = !same(want, start);
            stored.elements += u64::from(there);
            if got.is_nan() && !want.is_nan() && !start.is_nan() {
                stored.nan += 1;
            } else if there && !same(got, want) {
                let apart = (f64::from(got) - f64::from(want)).abs();
                let by = f64::from(want).abs().max(floor);
                // infinities and missing NaNs count as the largest error
                let apart = if apart == 0.0 { 0.0 } else { apart / by };
                let apart = if apart.is_nan() { f64::INFINITY } else { apart };
                stored.stored_err = stored.stored_err.max(apart);
                stored.untouched += u64::from(apart > tolerance && same(got, start));
            }
        }
        stored
    }
}

/// A variant with output tensors of its own.
pub(super) struct OutputTensors {
    /// The variant. All but the output tensors is shared with the original.
    pub(super) variant: Variant,
    outputs: Vec<Output>,
}

struct Output {
    buffer: OutBuffer,
    start: Vec<f32>,
}

impl OutputTensors {
    /// Copies a variant with new output tensors, which start with the current values of the original's.
    pub(super) fn copy_of(variant: &Variant) -> Result<Self, TestError> {
        let mut copy = variant.clone();
        for (number, part) in variant.parts().enumerate() {
            for (field, buffer) in outputs(part) {
                let mut values = buffer.to_vec().into_iter().map(|x| ParamValue::Float(x.into()));
                let values = ParamValue::nested(buffer.shape(), &mut values);
                copy.set_in(number, part.desc().fields[field].name, values).map_err(Error::from)?;
            }
        }
        let output = |(_, buffer): (usize, OutBuffer)| Output { start: buffer.to_vec(), buffer };
        let outputs = copy.parts().flat_map(outputs).map(output).collect();
        Ok(OutputTensors { variant: copy, outputs })
    }

    /// Whether it has output tensors.
    pub(super) fn stores(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Compares the stored elements with those of another copy of the same variant. An element within `tolerance` of
    /// its start does not count as untouched.
    pub(super) fn against(&self, reference: &OutputTensors, tolerance: f64) -> StoredOutputs {
        let tensors = self.outputs.iter().zip(&reference.outputs);
        let each = tensors.map(|(got, want)| {
            StoredOutputs::between(&got.buffer.to_vec(), &want.buffer.to_vec(), &want.start, tolerance)
        });
        each.fold(StoredOutputs::default(), |all, one| StoredOutputs {
            elements: all.elements + one.elements,
            stored_err: all.stored_err.max(one.stored_err),
            untouched: all.untouched + one.untouched,
            nan: all.nan + one.nan,
        })
    }
}

/// The output tensors of a part, by field number.
fn outputs(part: &dyn ErasedVariant) -> Vec<(usize, OutBuffer)> {
    #[derive(Default)]
    struct Found {
        fields: usize,
        outputs: Vec<(usize, OutBuffer)>,
    }
    impl ArgVisitor for Found {
        fn scalar(&mut self, _: u32) {
            self.fields += 1;
        }
        fn tensor(&mut self, _: TensorArg<'_>) {
            self.fields += 1;
        }
        fn out(&mut self, buffer: Option<&OutBuffer>, _: &[i64]) {
            self.outputs.extend(buffer.map(|buffer| (self.fields, buffer.clone())));
            self.fields += 1;
        }
    }
    let mut found = Found::default();
    part.visit_args(&mut found);
    found.outputs
}

#[cfg(test)]
mod tests {
    use super::{OutputTensors, StoredOutputs};
    use attn::Variant;

    /// The reference stores the first three.
    const WANT: [f32; 5] = [1.0, -2.0, 1e-3, 0.0, 0.0];

    fn of(got: [f32; 5]) -> StoredOutputs {
        StoredOutputs::between(&got, &WANT, &[0.0; 5], 1e-3)
    }

    #[test]
    fn stored_elements_are_compared_within_a_tolerance() {
        assert_eq!(of(WANT), StoredOutputs { elements: 3, ..StoredOutputs::default() });
        let near = of([1.0 + 1e-4, -2.0, 2e-3, 7.0, -7.0]);
        assert!(near.within(1e-3) && near.stored_err > 5e-4, "small elements count by the others: {near:?}");
        assert_eq!(near.untouched, 0, "{near:?}");
        assert!(!of([1.01, -2.0, 1e-3, 0.0, 0.0]).within(1e-3));
        assert!(!of([-2.0, 1.0, 1e-3, 0.0, 0.0]).within(1e-3), "in each other's place");
    }

    #[test]
    fn storing_nothing_fails() {
        let nothing = of([0.0; 5]);
        assert!(!nothing.within(1e-3) && nothing.untouched == 2, "the third is too small to tell: {nothing:?}");
        let one_less = of([1.0, 0.0, 1e-3, 0.0, 0.0]);
        assert!(!one_less.within(1e-3) && one_less.untouched == 1, "{one_less:?}");
        let max = StoredOutputs::between(&[-1e30; 2], &[3.0, -1e30], &[-1e30; 2], 1e-3);
        assert!(!max.within(1e-3) && max.elements == 1 && max.untouched == 1, "{max:?}");
        let infinite = StoredOutputs::between(&[f32::NEG_INFINITY], &[3.0], &[f32::NEG_INFINITY], 1e-3);
        assert!(!infinite.within(1e-3) && infinite.untouched == 1, "{infinite:?}");
    }

    #[test]
    fn no_nan_is_stored_where_there_is_no_key() {
        let stored = of([1.0, -2.0, 1e-3, f32::NAN, 0.0]);
        assert!(!stored.within(1e-3) && stored.nan == 1 && stored.untouched == 0, "{stored:?}");
        assert_eq!(of([f32::NAN, -2.0, 1e-3, 0.0, 0.0]).nan, 1);
        assert!(!StoredOutputs::between(&[1.0], &[f32::NAN], &[0.0], 1e-3).within(1e-3), "a NaN that is wanted");
        assert!(StoredOutputs::between(&[f32::NAN], &[f32::NAN], &[0.0], 1e-3).within(1e-3));
    }

    #[test]
    fn copies_store_to_tensors_of_their_own() {
        let zeros = "max_logit(max=[0, 5])";
        let variant = Variant::parse(&format!("causal + per_head(heads=[0, 1], {zeros}, {zeros})")).expect("stock");
        let [a, b] = [(); 2].map(|()| OutputTensors::copy_of(&variant).expect("it can be set"));
        assert_eq!((a.outputs.len(), a.outputs[1].start.as_slice()), (2, [0.0, 5.0].as_slice()));
        let of_original = OutputTensors::copy_of(&variant).expect("it can be set");
        b.outputs[1].buffer.write_back(&[3.0, 5.0]).expect("two");
        assert_eq!(a.against(&of_original, 1e-3), StoredOutputs::default());
        let stored = a.against(&b, 1e-3);
        assert_eq!((stored.elements, stored.untouched), (1, 1));
        assert!(!OutputTensors::copy_of(&Variant::full()).expect("nothing to set").stores());
    }
}
