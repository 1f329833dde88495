//! Every stock variant, read from its source file: the text of its kernels is that of the compiled variant.

use std::fs;
use std::path::{Path, PathBuf};

use attn_core::lang::device_type::TypeDesc;
use attn_core::lang::{
    ConstValue, DeviceFn, Dims, FieldType, ParamValue, ParamValues, QueryTile, Tile, Tristate, VariantDesc,
};
use attn_core::{Registry, Variant};
use attn_variants as _;

fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => walk(&path, files),
                false => files.push(path),
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
    let mut files = Vec::new();
    walk(&root.join("variants/src"), &mut files);
    files.sort();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root).expect("inside").to_string_lossy().replace('\\', "/");
        (name, fs::read_to_string(path).expect("text"))
    };
    // these have macros and helpers of tests
    let skipped = ["variants/src/lib.rs", "variants/src/testing.rs"];
    // KV formats are compiled into programs alone
    let is_format = |name: &str| name.starts_with("variants/src/kv_formats");
    let wanted = |name: &str| !skipped.contains(&name) && !is_format(name);
    files.into_iter().map(named).filter(|(name, _)| wanted(name)).collect()
}

fn read() -> Vec<&'static VariantDesc> {
    let sources = sources();
    let files: Vec<(&str, &str)> = sources.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    attn_text::load(&files).unwrap_or_else(|error| panic!("{error}"))
}

/// All that a kernel or a user sees of a descriptor.
fn described(desc: &VariantDesc) -> String {
    let mut text = format!(
        "{} {} {}:{}\n{}\n{:?} {:?}\n{:?}\n{}|{}|{}|{}|{:?}|{}|{}|{:?}\n",
        desc.name,
        desc.type_name,
        desc.file,
        desc.line,
        desc.doc,
        desc.normalizer,
        desc.max_floor,
        desc.mask,
        desc.bias,
        desc.slope,
        desc.bias_row,
        desc.bound,
        desc.divisors,
        desc.stores,
        desc.slots,
        desc.coordinates,
    );
    for hook in desc.hooks {
        text += &format!("{:?}: {}\n", hook.hook, hook.cuda);
    }
    for field in desc.fields {
        let default = field.default.filter(|_| matches!(field.ty, FieldType::Scalar(_)));
        text += &format!(
            "{} {} {} {} {default:?} {:?} {}\n",
            field.name, field.doc, field.ty, field.shape, field.require, field.monotone
        );
    }
    desc.device_fns.iter().for_each(|helper| text += &helper_text(helper));
    desc.types.iter().for_each(|link| text += &format!("{} {}", link.name, type_text(link.ty)));
    desc.consts.iter().for_each(|link| text += &constant(link.name, link.value.get()));
    text
}

fn helper_text(helper: &DeviceFn) -> String {
    let mut text = format!("{}\n{}\n{}\n", helper.name, helper.cuda, helper.over);
    helper.device_fns.iter().for_each(|helper| text += &helper_text(helper));
    helper.types.iter().for_each(|link| text += &type_text(link.ty));
    helper.consts.iter().for_each(|link| text += &constant(link.name, link.value.get()));
    text
}

fn type_text(ty: &TypeDesc) -> String {
    format!("{} {} {:?} {}\n", ty.name, ty.cuda, ty.variants, ty.types.len())
}

fn constant(name: &str, value: ConstValue) -> String {
    format!("{name} = {value:?}\n")
}

#[test]
fn every_stock_file_gives_the_text_of_the_compiled_variant() {
    let registry = Registry::global().expect("no two variants have one name");
    let read = read();
    for desc in &read {
        let compiled = registry.get(desc.name).unwrap_or_else(|| panic!("no compiled variant `{}`", desc.name));
        assert_eq!(described(desc), described(compiled));
    }
    let mut names: Vec<_> = read.iter().map(|desc| desc.name).collect();
    names.sort_unstable();
    assert_eq!(names, registry.names(), "each is read");
}

/// Tiles of a request with 300 queries and 500 keys.
fn tiles() -> impl Iterator<Item = Tile> {
    (0..300).step_by(50).flat_map(|q| (0..500).step_by(50).map(move |k| (q, k))).map(|(q, k)| {
        let rows = QueryTile {
            qo_row_min: 2 * q,
            qo_row_max: 2 * q + 99,
            qo_pos_min: 200 + q,
            qo_pos_max: 200 + q + 49,
            qo_token_min: q,
            qo_token_max: q + 49,
            qo_head_max: 1,
            qo_len: 300,
            kv_len: 500,
            ..QueryTile::default()
        };
        Tile { rows, kv_pos_min: k, kv_pos_max: k + 49, kv_token_min: k, kv_token_max: k + 49 }
    })
}

/// A value for each scalar that needs one, and small tensors: enough for tile classes.
fn some_values(desc: &VariantDesc) -> ParamValues {
    let mut values = ParamValues::default();
    for field in desc.fields.iter().filter(|field| field.default.is_none()) {
        if let FieldType::Scalar(elem) = field.ty {
            let value = if elem.is_float() { ParamValue::Float(1.5) } else { ParamValue::Int(64) };
            values.set(field.name, value);
        }
    }
    values
}

#[test]
fn masks_have_the_tile_classes_of_the_compiled_variant() {
    let registry = Registry::global().expect("no two variants have one name");
    let (mut compared, mut decided) = (0, 0);
    for desc in read() {
        let compiled = registry.get(desc.name).expect("compiled");
        let values = some_values(desc);
        let (Ok(text), Ok(compiled)) = ((desc.make)(desc, &values), (compiled.make)(compiled, &values)) else {
            continue;
        };
        compared += 1;
        for tile in tiles() {
            assert_eq!(text.mask_over(&tile), compiled.mask_over(&tile), "{text} over {tile:?}");
            decided += usize::from(text.mask_over(&tile) != Tristate::Unknown);
        }
    }
    assert!(compared > 40 && decided > 500, "{compared} variants, {decided} decided tiles");
}

/// What a loop changes are numbers without a limit, in the macro as in text.
#[test]
fn a_loop_that_changes_many_numbers_has_a_tile_class() {
    let all = |of: &dyn Fn(usize) -> String| (0..20).map(of).collect::<String>();
    let text = format!(
        "#[derive(Clone, VariantParams)] struct Many {{ n: i32 }}\n#[attention_variant]\n\
         impl AttentionVariant for Many {{ fn logits_mask(&self, at: LogitIndex) -> bool {{ {} \
         for i in 0..self.n {{ {} }} at.kv_pos < x19 }} }}",
        all(&|k| format!("let mut x{k} = {k};")),
        all(&|k| format!("x{k} += i;")),
    );
    let desc = attn_text::load(&[("many.rs", &text)]).unwrap_or_else(|error| panic!("{error}"))[0];
    let many = (desc.make)(desc, &some_values(desc)).expect("a number for each parameter");
    let keys = |first: i32| Tile { kv_pos_min: first, kv_pos_max: first + 9, ..Tile::default() };
    let last = 19 + (0..64).sum::<i32>();
    let classes = [0, last - 5, last].map(|first| many.mask_over(&keys(first)));
    assert_eq!(classes, [Tristate::True, Tristate::Unknown, Tristate::False]);
}

#[test]
fn parameters_are_checked_as_those_of_the_compiled_variant() {
    let mut registry = Registry::empty();
    registry.register_all(&read()).expect("names");
    let dims = Dims { qo_heads: Some(4), kv_heads: Some(2), head_dim: Some(64), ..Dims::default() };
    let texts = [
        "soft_cap(cap=30)",
        "soft_cap",
        "soft_cap(cap=-1)",
        "soft_cap(cap=true)",
        "soft_cap(cup=3)",
        "sliding_window(window=5)",
        "sliding_window(window=-5)",
        "sliding_window(window=0.5)",
        "causal + rope",
        "rope(theta=-1)",
        "rope(rotary_dim=7)",
        "alibi",
        "alibi(slopes=[1, 2, 3, 4])",
        "alibi(slopes=[1, 2])",
        "alibi(slopes=[1, inf, 3, 4])",
        "documents",
        "sink(sinks=[0, 0, 0, 0])",
    ];
    let outcome = |text: &str, registry: &Registry| match Variant::parse_with(text, registry) {
        Err(error) => format!("refused: {error}"),
        Ok(variant) => match variant.bind(&dims) {
            Err(error) => format!("unbound: {error}"),
            Ok(bound) => format!("{variant} {:?}", bound.tile_class(Tile::default())),
        },
    };
    let compiled = Registry::global().expect("no two variants have one name");
    let mut same = 0;
    for text in texts {
        let (read, want) = (outcome(text, &registry), outcome(text, &compiled));
        // a tensor's default is a function, which text cannot call
        if read.contains("is not set and has no default") && !want.contains("is not set") {
            continue;
        }
        assert_eq!(read, want, "{text}");
        same += 1;
    }
    assert!(same > 12, "{same} outcomes were compared");
}
