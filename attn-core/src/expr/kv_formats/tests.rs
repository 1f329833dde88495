//! KV formats by name: how they are read, bound and refused.

use crate::{
    Variant,
    dtype::{Dtype, Dtypes, DtypesError},
    expr::{ExprError, TensorContent},
    lang::{
        BindError, Dims, ParamError, ParamValue, Tensor2,
        kv_format::{
            DescribedKvFormat as _, KvFormatId, KvFormats, RowBytes,
            samples::{Channels, Int8, registry},
        },
    },
    registry::{Registry, RegistryError},
    spec::HeadDimVo,
};

fn parse(text: &str) -> Result<KvFormats, ExprError> {
    KvFormats::parse_with(text, &registry())
}

fn id(text: &str) -> KvFormatId {
    parse(text).expect(text).id()
}

#[test]
fn one_text_is_for_both_and_a_slash_separates_two() {
    assert_eq!(parse("int8").expect("a format"), KvFormats::both(Int8));
    let two = parse(" int8 / channels( pad = 16, )").expect("two formats");
    assert_eq!((two.keys().desc().name, two.values().desc().name), ("int8", "channels"));
    assert_eq!(two.to_string(), "int8 / channels(pad=16)");
    assert_eq!(parse(&two.to_string()).expect("its own text"), two);
    // what a default leaves out is there
    assert_eq!(parse("channels").expect("a format").to_string(), "channels(pad=8)");
}

#[test]
fn an_id_is_of_names_and_scalars() {
    assert_eq!(id("channels"), id("channels(pad=8)/channels"));
    assert_ne!(id("channels"), id("channels(pad=16)"));
    assert_ne!(id("int8 / channels"), id("channels / int8"));
    let scales = Tensor2::new(vec![0.5f32; 8], [1, 8]).expect("a table");
    let typed = KvFormats::both(Channels { pad: 8, scales });
    assert_eq!((typed.id(), typed.to_string().as_str()), (id("channels"), "channels(pad=8)"));
    let rows = [0, 1].map(|part| id("int8 / channels").row_bytes(part, 64));
    assert_eq!(rows, [RowBytes { codes: 64, side: 4 }, RowBytes { codes: 72, side: 0 }]);
    let types = Dtypes::bf16().with_format(id("int8"));
    assert_eq!((types.qo, types.kv, types.format, types.check()), (Dtype::Bf16, Dtype::U8, Some(id("int8")), Ok(())));
}

#[test]
fn errors_have_columns_and_nearest_names() {
    let error = parse("int8 / chanels").expect_err("misspelt");
    let ExprError::UnknownKvFormat { column, nearest, known, .. } = &error else { panic!("{error}") };
    assert_eq!((*column, nearest.as_deref(), known.join(" ")), (Some(8), Some("channels"), "channels int8".to_owned()));
    assert!(error.to_string().contains("at column 8: no KV format `chanels` (did you mean `channels`?)"), "{error}");
    let error = parse("channels(pda=1)").expect_err("no such parameter");
    let ExprError::Param { column: Some(10), source, .. } = &error else { panic!("{error}") };
    assert!(matches!(&**source, ParamError::Unknown { nearest: Some(near), .. } if near == "pad"), "{error}");
    assert!(matches!(parse("channels(pad=1.5)"), Err(ExprError::Param { column: Some(10), .. })));
    for (text, column, found) in [("", 1, "the end"), ("int8 /", 7, "the end"), ("int8 / int8 / int8", 13, "`/`")] {
        let error = parse(text).expect_err(text);
        let ExprError::Syntax { column: at, found: there, .. } = &error else { panic!("{error}") };
        assert_eq!((*at, there.as_str()), (column, found), "{error}");
    }
}

#[test]
fn two_formats_of_one_name_are_refused() {
    let mut registry = registry();
    registry.register_kv_format(Int8::desc()).expect("again");
    static OTHER: crate::lang::kv_format::KvFormatDesc =
        crate::lang::kv_format::KvFormatDesc { name: "int8", line: 1, ..CHANNELS };
    const CHANNELS: crate::lang::kv_format::KvFormatDesc = crate::lang::kv_format::samples::CHANNELS;
    let error = registry.register_kv_format(&OTHER).expect_err("another one");
    assert!(matches!(error, RegistryError::DuplicateFormat { .. }) && error.to_string().contains("#[kv_format"));
    assert!(std::ptr::eq(registry.kv_format("int8").expect("the first"), Int8::desc()));
    assert_eq!(Registry::empty().kv_formats().len(), 0);
}

#[test]
fn types_and_formats_that_do_not_go_together_are_refused() {
    let (full, int8) = (Variant::full(), KvFormats::both(Int8));
    let over = |variant: &Variant, dtypes| variant.over(dtypes, HeadDimVo::Same);
    let bytes = Dtypes::bf16().with_kv(Dtype::U8);
    let error = over(&full, bytes).expect_err("no format");
    assert!(matches!(error, DtypesError::NoFormat) && error.to_string().contains("with_kv_format"), "{error}");
    let typed = full.clone().with_kv_formats(int8.clone());
    let (variant, dtypes) = over(&typed, bytes).expect("the variant says it");
    assert_eq!((variant.kv_formats(), dtypes.format), (Some(&int8), Some(int8.id())));
    assert_eq!(over(&full, bytes.with_format(int8.id())).expect("the types say it").0, variant);
    let error = over(&typed, Dtypes::bf16()).expect_err("keys are bytes");
    assert_eq!(error, DtypesError::FormatOf { kv: Dtype::Bf16, format: int8.id() });
    assert!(error.to_string().contains("Dtype::U8"), "{error}");
    let error = over(&typed, bytes.with_format(id("channels"))).expect_err("two");
    assert_eq!(error, DtypesError::TwoFormats { variant: int8.id(), dtypes: id("channels") });
    // values within keys have the format of keys
    let latent = |text| full.over(Dtypes::bf16().with_format(id(text)), HeadDimVo::SharedWithKeys(64));
    assert_eq!(latent("int8 / channels").expect_err("two"), DtypesError::Shared { format: id("int8 / channels") });
    let (variant, _) = latent("channels").expect("one");
    let bound = variant.bind(&Dims { value_dim: Some(64), kv_heads: Some(1), head_dim: Some(96), ..Dims::default() });
    assert_eq!(bound.expect_err("its scales are needed").root(), &BindError::Unset { name: "scales".to_owned() });
    let missing = variant.missing(&Dims { kv_heads: Some(1), head_dim: Some(96), ..Dims::default() });
    let missing: Vec<_> = missing.expect("a shape").into_iter().map(|m| (m.part, m.shape)).collect();
    assert_eq!(missing, [(0, Some(vec![1, 96]))]);
}

#[test]
fn formats_are_bound_to_the_dimension_of_their_rows() {
    let dims = Dims { kv_heads: Some(2), head_dim: Some(16), value_dim: Some(8), ..Dims::default() };
    let of = |dim: usize| Tensor2::new(vec![0.25f32; 2 * dim], [2, dim]).expect("a table");
    let formats = |k, v| KvFormats::new(Channels { pad: 8, scales: of(k) }, Channels { pad: 8, scales: of(v) });
    let with = |formats| Variant::full().with_kv_formats(formats);
    with(formats(16, 8)).bind(&dims).expect("its own dims");
    let error = with(formats(16, 16)).bind(&dims).expect_err("values have 8 elements");
    assert!(error.to_string().starts_with("in `value_format channels`: "), "{error}");
    let error = with(parse("channels(pad=17)").expect("read")).bind(&dims).expect_err("`pad` is too large");
    assert!(matches!(error.root(), BindError::Require { name, .. } if name == "pad"), "{error}");
    let odd = Dims { head_dim: Some(12), ..dims };
    let error = with(KvFormats::both(Int8)).bind(&odd).expect_err("no multiple of 8");
    assert!(matches!(error.root(), BindError::KvRow { dim: 12, .. }), "{error}");
}

#[test]
fn tensors_of_formats_are_set_by_name() {
    let table = |x: f32| Tensor2::new(vec![x; 8], [1, 8]).expect("a table");
    let formats = KvFormats::new(Channels { pad: 8, scales: table(1.0) }, Channels { pad: 8, scales: table(2.0) });
    let dims = Dims { kv_heads: Some(1), head_dim: Some(8), value_dim: Some(8), ..Dims::default() };
    let variant = Variant::full().with_kv_formats(formats).bind(&dims).expect("fits");
    assert_eq!(variant.to_string(), "full over channels(pad=8)");
    let slot = variant.tensor_slot("value_format.scales").expect("a tensor");
    assert_eq!((slot.part, slot.shape.as_slice()), (1, &[1, 8][..]));
    let mut changed = variant.clone();
    changed.set_content(&slot, &TensorContent::host(&[3f32; 8])).expect("fits");
    let first = |variant: &Variant, part: usize| {
        let values = variant.kv_formats().expect("formats").part(part).to_values();
        values.get("scales").expect("scales").to_string()
    };
    assert_eq!((first(&changed, 0), first(&changed, 1)), (first(&variant, 0), "[[3, 3, 3, 3, 3, 3, 3, 3]]".to_owned()));
    variant.check_structure(&changed).expect("values alone differ");
    assert!(variant.tensor_slot("scales").is_err(), "both have it");
    // a scalar changes the rows
    changed.set("key_format.pad", ParamValue::Int(0)).expect("a parameter");
    assert_eq!(changed.kv_formats().expect("formats").id(), id("channels(pad=0) / channels"));
    let error = variant.check_structure(&changed).expect_err("other rows").to_string();
    assert!(error.contains("channels(pad=0) / channels(pad=8)"), "{error}");
    let error = variant.check_structure(&variant.without_kv_formats()).expect_err("no formats").to_string();
    assert!(error.contains("keys of numbers"), "{error}");
}
