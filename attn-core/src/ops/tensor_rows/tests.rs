//! Rows of parameter tensors: what a row is, and what is refused.

use super::*;
use crate::lang::{AttentionVariant, Bits, LogitIndex, ParamValue, Tensor2, Tensor3, param_tensor::ParamElement};
use crate::{VariantParams, attention_variant};

/// A bias of each query and key, and a mask of each query.
#[derive(Clone, Debug, VariantParams)]
struct Tables {
    #[shape(batch, qo_tokens, 2)]
    bias: Tensor3<f32>,
    #[shape(qo_tokens, 4)]
    #[mutable]
    sees: Tensor2<Bits>,
}

#[attention_variant(name = "tables_with_rows")]
impl AttentionVariant for Tables {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.bias[[at.batch, at.qo_token, at.kv_pos]]
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.sees[[at.qo_token, at.kv_pos]]
    }
}

fn tables() -> Variant {
    let bias = Tensor3::from_values(vec![0.0; 12], [2, 3, 2]).expect("twelve");
    Tables { bias, sees: Tensor2::from_values(vec![false; 16], [4, 4]).expect("sixteen") }.into()
}

fn write<T: ParamElement>(name: &str, indices: &[i32], values: &[T]) -> Result<ParamValue, OpError>
where
    crate::lang::Tensor1<T>: crate::lang::params::ParamField,
{
    let mut variant = tables();
    let slot = variant.tensor_slot(name).expect("a table");
    let rows = TensorRows::at(Array::host(indices), TensorContent::host(values));
    set_rows(&mut variant, &slot, &rows)?;
    let part = variant.parts().next().expect("one part");
    Ok(part.to_values().get(name).expect("given").clone())
}

#[test]
fn a_row_is_an_element_or_the_last_axes() {
    let text = |value: Result<ParamValue, OpError>| value.expect("written").to_string();
    assert_eq!(
        text(write("bias", &[7, -1, 0], &[1f32, 2.0, 3.0])),
        "[[[3, 0], [0, 0], [0, 0]], [[0, 1], [0, 0], [0, 0]]]"
    );
    assert_eq!(
        text(write("bias", &[4, 2], &[1f32, 2.0, 3.0, 4.0])),
        "[[[0, 0], [0, 0], [3, 4]], [[0, 0], [1, 2], [0, 0]]]"
    );
    assert_eq!(
        text(write("bias", &[1], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])),
        "[[[0, 0], [0, 0], [0, 0]], [[1, 2], [3, 4], [5, 6]]]"
    );
    // two queries of four bits in a byte
    let none = "[false, false, false, false]";
    assert!(write("sees", &[1], &[Bits(0b1001)]).is_err(), "four bits are no whole byte");
    let whole = write("sees", &[0], &[Bits(0b0110), Bits(0x80)]);
    assert_eq!(text(whole), format!("[[false, true, true, false], {none}, {none}, [false, false, false, true]]"));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let error = |result: Result<ParamValue, OpError>| result.expect_err("refused").to_string();
    let past = error(write("bias", &[6], &[1f32, 2.0]));
    assert!(past.contains("row 6 of the 6 rows of `bias`"), "{past}");
    let uneven = error(write("bias", &[0, 1], &[1f32, 2.0, 3.0]));
    assert!(uneven.contains("2 rows for `bias` of shape [2, 3, 2] have 12 bytes in all"), "{uneven}");
    assert!(error(write("bias", &[0], &[1f32, 2.0, 3.0])).contains("a row is an element"));
    assert_eq!(error(write("bias", &[0], &[1i32, 2])), "`bias` is of f32; got i32");
    write::<f32>("bias", &[], &[]).expect("nothing to write");
}
