//! Biases that are rows of a parameter tensor: where the generated text reports such a row, its elements equal the
//! bias.

use attn_core::lang::{AttentionVariant, Dims, LogitIndex, RowIndex, Tensor1, Tensor2, Tensor3};
use attn_core::{VariantParams, attention_variant};
use attn_tests::host::HostVariant;
use half::f16;

#[derive(Clone, Debug, VariantParams)]
struct KeyRow {
    #[shape(9)]
    of: Tensor1<f32>,
}

#[attention_variant(name = "of_keys")]
impl AttentionVariant for KeyRow {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        self.of[at.kv_pos] + logit
    }
}

#[derive(Clone, Debug, VariantParams)]
struct BlockRow {
    #[require(block >= 1)]
    block: i32,
    #[shape(2, qo_heads, 9)]
    of: Tensor3<f16>,
}

/// The row index is computed from the query alone.
#[attention_variant(name = "of_blocks")]
impl AttentionVariant for BlockRow {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let block = at.qo_pos / self.block;
        logit + self.of[[block, at.qo_head, at.kv_pos]]
    }
}

#[derive(Clone, Debug, VariantParams)]
struct Other {
    of: i32,
    #[shape(4, 9)]
    table: Tensor2<f32>,
}

/// It is a row only if `of` is 0, which the generated text does not know.
#[attention_variant(name = "other")]
impl AttentionVariant for Other {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        match self.of {
            0 => logit + self.table[[at.qo_head, at.kv_pos]],
            _ => logit,
        }
    }
}

macro_rules! adds {
    ($type:ident, $name:literal, |$self:ident, $logit:ident, $at:ident| $value:expr) => {
        #[derive(Clone, Debug, VariantParams)]
        struct $type {
            #[shape(4, 9)]
            table: Tensor2<f32>,
        }

        #[attention_variant(name = $name)]
        impl AttentionVariant for $type {
            fn logits_transform(&$self, $logit: f32, $at: LogitIndex) -> f32 {
                $value
            }
        }
    };
}
adds!(Less, "less", |self, logit, at| logit - self.table[[at.qo_head, at.kv_pos]]);
adds!(Doubled, "doubled", |self, logit, at| logit + 2.0 * self.table[[at.qo_head, at.kv_pos]]);
adds!(Shifted, "shifted", |self, logit, at| logit + self.table[[at.qo_head, at.kv_pos + 1]]);
adds!(Across, "across", |self, logit, at| logit + self.table[[at.kv_pos, at.qo_pos]]);
adds!(Diagonal, "diagonal", |self, logit, at| logit + self.table[[at.kv_pos % 4, at.kv_pos]]);

const KEYS: i64 = 9;

fn host(expr: &str) -> HostVariant {
    let own = attn_core::variants![KeyRow, BlockRow, Other, Less, Doubled, Shifted, Across, Diagonal];
    let dims = Dims {
        qo_heads: Some(4),
        kv_heads: Some(2),
        qo_tokens: Some(2),
        kv_tokens: Some(KEYS),
        batch: Some(1),
        ..Dims::default()
    };
    HostVariant::of_expr(expr, own, &dims)
}

fn at(qo_head: i32, qo_pos: i32, kv_pos: i32) -> LogitIndex {
    let row = RowIndex { qo_head, qo_pos, qo_row: qo_pos % 2, kv_len: 9, qo_len: 2, ..RowIndex::default() };
    LogitIndex { row, kv_pos, kv_token: kv_pos, ..LogitIndex::default() }
}

/// A tensor as an expression writes it, whose neighbouring elements differ.
fn table(shape: &[i64]) -> String {
    fn of(shape: &[i64], number: i64) -> String {
        let Some((len, inner)) = shape.split_first() else { return format!("{}", (number * number % 31) as f64 / 4.0) };
        let items: Vec<String> = (0..*len).map(|i| of(inner, number * len + i)).collect();
        format!("[{}]", items.join(", "))
    }
    of(shape, 0)
}

#[test]
fn elements_of_the_row_equal_the_bias() {
    for expr in [
        format!("of_keys(of={})", table(&[KEYS])),
        format!("causal + of_blocks(block=3, of={})", table(&[2, 4, KEYS])),
        format!("pair_bias(rows=2, columns=6, bias={}) + sliding_window(window=3)", table(&[1, 4, 2, 6])),
    ] {
        let host = host(&expr);
        for (head, query, key) in [(0, 0, 0), (1, 5, 3), (3, 1, 8), (2, 4, 7)] {
            let at = at(head, query, key);
            assert_eq!(host.logits_bias_row(at), Some(host.logits_bias(at)), "{expr} at {head}, {query}, {key}");
        }
    }
}

#[test]
fn other_biases_are_not_reported_as_rows() {
    let of = table(&[4, KEYS]);
    for expr in [
        "full".to_owned(),
        "alibi".to_owned(),
        format!("other(of=0, table={of})"),
        format!("less(table={of})"),
        format!("doubled(table={of})"),
        format!("shifted(table={of})"),
        format!("across(table={of})"),
        format!("diagonal(table={of})"),
        format!("of_keys(of={}) + alibi", table(&[KEYS])),
        format!("per_head(heads=[0, 0, 1, 1], of_keys(of={}), alibi)", table(&[KEYS])),
        format!(
            "remap(positions(of_query=[0, 1], of_key=[0, 1, 2, 3, 4, 5, 6, 7, 8]), of_keys(of={}))",
            table(&[KEYS])
        ),
    ] {
        assert_eq!(host(&expr).logits_bias_row(at(0, 3, 1)), None, "{expr}");
    }
}
