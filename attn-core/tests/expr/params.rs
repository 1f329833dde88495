//! The code of `#[derive(VariantParams)]`: values by name, conditions, defaults, shapes, kernel arguments.

use crate::common::{Everything, Sink, SoftCap};
use attn::VariantParams as Derive;
use attn::lang::param_tensor::OutBuffer;
use attn::lang::params::{ArgVisitor, TensorArg};
use attn::lang::{
    BindError, Bits, Dims, F8E4M3, FieldType, OutTensor1, ParamError, ParamValue, ParamValues, Tensor, Tensor0,
    Tensor1, Tensor2, Tensor3, Tensor4, VariantParams,
};
use half::f16;

fn values(list: &[(&str, ParamValue)]) -> ParamValues {
    ParamValues(list.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect())
}

fn dims(qo_heads: i64, kv_heads: i64) -> Dims {
    Dims { qo_heads: Some(qo_heads), kv_heads: Some(kv_heads), ..Dims::default() }
}

#[test]
fn descriptors_have_the_attributes_of_fields() {
    let field = |name: &str| Everything::FIELDS.iter().find(|f| f.name == name).expect("a field");
    assert_eq!(field("table").shape, "kv_heads, 2 * seed + 1");
    assert_eq!(field("rate").default, Some("0.5"));
    assert_eq!(field("offset").require, Some("offset < 100"));
    assert!(matches!(field("starts").ty, FieldType::Tensor { rank: 1, .. }));
    assert_eq!(SoftCap::FIELDS[0].doc, "The bound.");
    assert_eq!(Everything::DOC, "One parameter of every type.");
    assert_eq!(SoftCap::FIELDS[0].default, None);
}

#[test]
fn defaults_fill_missing_values() {
    let given = values(&[("offset", ParamValue::Float(3.0)), ("rate", ParamValue::Int(2))]);
    let v = Everything::from_values(&given).expect("valid");
    assert_eq!((v.rate, v.offset, v.seed, v.on), (2.0, 3, 7, true));
    assert!(!v.bias.is_set());
    let d = Everything::default();
    assert_eq!((d.rate, d.offset, d.seed, d.on, d.table.is_set()), (0.5, -4, 7, true, false));
}

#[test]
fn wrong_names_and_values_are_typed_errors() {
    let error = |list: &[(&str, ParamValue)]| Everything::from_values(&values(list)).map(|_| ()).expect_err("wrong");
    let unknown = error(&[("rat", ParamValue::Int(1))]);
    assert!(matches!(&unknown, ParamError::Unknown { nearest: Some(n), .. } if n == "rate"), "{unknown}");
    assert!(unknown.to_string().contains("did you mean `rate`?"));
    let twice = error(&[("on", ParamValue::Bool(true)), ("on", ParamValue::Bool(true))]);
    assert_eq!(twice, ParamError::Twice { name: "on".to_owned() });
    assert!(matches!(error(&[("on", ParamValue::Int(1))]), ParamError::Type { .. }));
    assert!(matches!(error(&[("seed", ParamValue::Int(-1))]), ParamError::Range { .. }));
    assert!(matches!(error(&[("bias", ParamValue::Int(1))]), ParamError::Type { .. }));
    let require = error(&[("offset", ParamValue::Int(100))]);
    assert_eq!(require.to_string(), "parameter `offset` = 100 is not allowed: `offset < 100` must hold");
    let bias = ParamValue::List(vec![ParamValue::Int(5000)]);
    assert!(matches!(error(&[("bias", bias)]), ParamError::Require { .. }), "over a tensor, once it is set");
    let missing = SoftCap::from_values(&ParamValues::default()).map(|_| ()).expect_err("no default");
    assert_eq!(missing.to_string(), "parameter `cap` (f32) has no default and was not given");
    let sink = Sink::from_values(&ParamValues::default()).expect("a tensor may come later");
    assert!(!sink.logits.is_set());
}

#[test]
fn binding_fills_tensors_of_known_shape() {
    let mut v = Everything { seed: 1, ..Everything::default() };
    v.bind(&dims(4, 2)).expect("valid");
    assert_eq!(v.bias.as_slice(), [0.5; 4]);
    assert_eq!((v.table.shape(), v.table.as_slice()), ([2, 3], [-4; 6].as_slice()));
    assert!(!v.starts.is_set(), "the batch is not known yet");
    v.bind(&Dims { batch: Some(3), ..dims(4, 2) }).expect("valid");
    assert_eq!(v.starts.as_slice(), [0, 1, 2]);
    // computed values are computed again when their inputs change, and do not count as given
    v.rate = 0.25;
    v.bind(&dims(2, 2)).expect("valid");
    assert_eq!(v.bias.as_slice(), [0.25; 2]);
    assert!(v.to_values().get("bias").is_none());
}

#[test]
fn shapes_of_given_tensors_are_checked() {
    let mut v = Everything { bias: Tensor1::from([1.0, 2.0]), ..Everything::default() };
    let error = v.bind(&dims(4, 2)).expect_err("two of four");
    let BindError::Shape { name, shape, want, got } = &error else { panic!("{error}") };
    assert_eq!(
        (name.as_str(), shape.as_str(), want.as_slice(), got.as_slice()),
        ("bias", "qo_heads", [4].as_slice(), [2].as_slice())
    );
    let table = Tensor2::new(vec![0; 6], [3, 2]).expect("six");
    let mut v = Everything { table, seed: 1, ..Everything::default() };
    assert!(matches!(v.bind(&dims(4, 2)), Err(BindError::Shape { want, .. }) if want == [2, 3]));
    v.bind(&Dims::default()).expect("nothing is known to be wrong yet");
    let mut v = Everything { starts: Tensor1::from(vec![]), ..Everything::default() };
    assert!(matches!(v.bind(&Dims::default()), Err(BindError::Empty { .. })));
    v.bind(&Dims { batch: Some(0), ..Dims::default() }).expect("an empty batch has an empty table");
    let mut v = Everything { starts: Tensor1::from(vec![0, 1, 2]), ..Everything::default() };
    let of = |batch| Dims { batch: Some(batch), ..dims(4, 2) };
    (0..=3).for_each(|batch| v.bind(&of(batch)).expect("room for three"));
    assert_eq!(v.starts.as_slice(), [0, 1, 2]);
    let error = v.bind(&of(4)).expect_err("four requests");
    assert!(matches!(&error, BindError::Outgrown { want, got, .. } if *want == [4] && *got == [3]), "{error}");
    let mut v = Everything { offset: 100, ..Everything::default() };
    assert!(matches!(v.bind(&Dims::default()), Err(BindError::Require { .. })));
    let mut sink = Sink { logits: Tensor1::unset() };
    assert_eq!(sink.bind(&Dims::default()), Err(BindError::Unset { name: "logits".to_owned() }));
}

/// Shapes with arithmetic that can fail, and a condition on a dimension.
#[derive(Clone, Derive)]
struct Odd {
    groups: i32,
    #[default(false)]
    wide: bool,
    #[require(dim <= head_dim)]
    #[default(0)]
    dim: i32,
    #[shape(if wide && groups > 1 { head_dim } else { (head_dim - 1) / groups })]
    table: Tensor1<f32>,
    #[shape(4)]
    #[default(|_, _| vec![1.0; 3])]
    wrong: Tensor1<f32>,
}

#[test]
fn arithmetic_of_shapes_is_checked() {
    let odd = |groups, wide| Odd { groups, wide, dim: 0, table: [0.0; 3].into(), wrong: [0.0; 4].into() };
    let known = Dims { head_dim: Some(7), ..Dims::default() };
    odd(2, false).bind(&known).expect("6 / 2");
    assert!(matches!(odd(0, false).bind(&known), Err(BindError::ShapeArithmetic { .. })));
    assert!(matches!(odd(2, true).bind(&known), Err(BindError::Shape { want, .. }) if want == [7]));
    odd(0, false).bind(&Dims::default()).expect("head_dim is not known yet");
    let mut wrong = Odd { wrong: Tensor1::unset(), ..odd(2, false) };
    assert!(
        matches!(wrong.bind(&known), Err(BindError::DefaultLength { got: 3, .. })),
        "a default of the wrong length"
    );
    let mut far = Odd { dim: 8, ..odd(2, false) };
    far.bind(&Dims::default()).expect("head_dim is not known yet");
    assert!(matches!(far.bind(&known), Err(BindError::Require { .. })));
}

#[derive(Default)]
struct Args(Vec<String>);

impl ArgVisitor for Args {
    fn scalar(&mut self, bits: u32) {
        self.0.push(format!("{bits:#x}"));
    }
    fn tensor(&mut self, tensor: TensorArg<'_>) {
        self.0.push(format!("{}: {:x?} {:?}", tensor.elem.name(), tensor.bytes, tensor.shape));
    }
    fn out(&mut self, buffer: Option<&OutBuffer>, shape: &[i64]) {
        self.0.push(format!("{:?} {shape:?}", buffer.map(OutBuffer::to_vec)));
    }
}

#[test]
fn arguments_are_the_bits_of_the_fields_in_order() {
    let mut v = Everything { seed: 0, bias: Tensor1::from([-1.0]), ..Everything::default() };
    v.bind(&Dims { batch: Some(2), ..dims(1, 1) }).expect("valid");
    let mut args = Args::default();
    v.visit_args(&mut args);
    let tables = ["f32: [0, 0, 80, bf] [1]", "i32: [fc, ff, ff, ff] [1, 1]", "u32: [0, 0, 0, 0, 1, 0, 0, 0] [2]"];
    let want: Vec<_> = ["0x3f000000", "0xfffffffc", "0x0", "0x1"].into_iter().chain(tables).collect();
    assert_eq!(args.0, want);
}

/// Tensors of every rank, and an output tensor.
#[derive(Clone, Derive)]
struct Deep {
    #[default(|_, _| vec![0.1])]
    scale: Tensor0<f16>,
    #[shape(kv_tokens)]
    #[monotone]
    document: Tensor1<i32>,
    #[shape(batch, kv_tokens)]
    keep: Tensor2<Bits>,
    #[shape(2, qo_heads, 3)]
    #[monotone]
    bias: Tensor<F8E4M3, 3>,
    #[shape(1, 2, 1, 2)]
    #[default(|_, _| vec![true, false, true, true])]
    flags: Tensor4<bool>,
    #[shape(qo_heads)]
    #[default(|_, dims| vec![f32::NEG_INFINITY; dims.qo_heads.unwrap_or(0) as usize])]
    most: OutTensor1,
}

fn deep() -> Deep {
    Deep {
        scale: Tensor0::unset(),
        document: Tensor1::from([0, 0, 1]),
        keep: Tensor2::from_values(vec![true, false, true, true, true, false], [2, 3]).expect("six"),
        bias: Tensor::from_values(vec![0.5; 6], [2, 1, 3]).expect("six"),
        flags: Tensor4::unset(),
        most: OutTensor1::unset(),
    }
}

#[test]
fn tensors_of_every_rank_and_type_are_bound() {
    let dims = Dims { batch: Some(2), kv_tokens: Some(3), ..dims(1, 1) };
    let mut v = deep();
    v.bind(&dims).expect("valid");
    let mut args = Args::default();
    v.visit_args(&mut args);
    let want = [
        "f16: [66, 2e] []",
        "i32: [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0] [3]",
        "Bits: [1d] [2, 3]",
        "F8E4M3: [30, 30, 30, 30, 30, 30] [2, 1, 3]",
        "bool: [1, 0, 1, 1] [1, 2, 1, 2]",
        "Some([-inf]) [1]",
    ];
    assert_eq!(args.0, want);
    let types: Vec<String> = Deep::FIELDS.iter().map(|f| f.ty.to_string()).collect();
    let names = ["Tensor0<f16>", "Tensor1<i32>", "Tensor2<Bits>", "Tensor3<F8E4M3>", "Tensor4<bool>", "OutTensor1"];
    assert_eq!(types, names);
    let monotone: Vec<bool> = Deep::FIELDS.iter().map(|f| f.monotone).collect();
    assert_eq!(monotone, [false, true, false, true, false, false]);
    // an output tensor keeps its handle, so that its owner finds the values
    let (most, known) = (v.most.clone(), v.clone());
    v.bind(&dims).expect("valid");
    assert_eq!((&v.most, &v.flags), (&most, &known.flags));
    let keep = Tensor2::<Bits>::from_values(vec![true; 6], [3, 2]).expect("six");
    let error = Deep { keep, ..deep() }.bind(&dims).expect_err("the other way round");
    assert!(matches!(error, BindError::Outgrown { want, .. } if want == [2, 3]));
    let round = Deep::from_values(&known.to_values()).expect("what was given");
    assert_eq!((round.document, round.keep, round.bias), (known.document, known.keep, known.bias));
    assert!(!round.most.is_set() && !round.flags.is_set());
}

#[test]
fn monotone_tensors_never_decrease_along_the_last_axis() {
    let says = |mut v: Deep| v.bind(&Dims::default()).expect_err("falls").to_string();
    let document = Tensor1::from([0, 7, 7, 3, 1]);
    let want = "tensor parameter `document` is #[monotone], but 3 at [3] follows 7";
    assert_eq!(says(Deep { document, ..deep() }), want);
    let bias = Tensor3::from_values(vec![0.0, 1.0, 2.0, 0.0, 2.0, 1.5], [2, 1, 3]).expect("six");
    let want = "tensor parameter `bias` is #[monotone], but 1.5 at [1, 0, 2] follows 2";
    assert_eq!(says(Deep { bias, ..deep() }), want);
    let bias = Tensor3::from_values(vec![0.0, f32::NAN, 2.0], [1, 1, 3]).expect("three");
    assert!(matches!(Deep { bias, ..deep() }.bind(&Dims::default()), Err(BindError::NotMonotone { at, .. })
            if at == [0, 0, 1]));
}

#[test]
fn setting_one_field_keeps_the_others_and_their_handles() {
    let dims = Dims { batch: Some(2), kv_tokens: Some(3), ..dims(1, 1) };
    let most = OutTensor1::new([1]).expect("small");
    let mut v = Deep { most: most.clone(), ..deep() };
    v.set_values(&values(&[("scale", ParamValue::Float(0.5))])).expect("a number");
    v.bind(&dims).expect("valid");
    v.most.store(0, 3.0);
    assert_eq!((v.scale.get(), most.to_vec(), v.document.len()), (0.5, vec![3.0], 3));
    let wrong = v.set_values(&values(&[("scale", ParamValue::Bool(true))])).expect_err("no number");
    assert!(matches!(wrong, ParamError::Type { .. }), "{wrong}");
    assert!(matches!(v.set_values(&values(&[("scal", ParamValue::Int(1))])), Err(ParamError::Unknown { .. })));
}
