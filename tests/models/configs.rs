//! Sample configurations, and the expression of each kind of layer.

use attn::lang::{Dims, ParamValue, ParamValues, RowIndex};
use attn::models::{Layer, Model, ModelError, from_config, from_value, known};
use attn::{Heads, VariantSpec};
use serde_json::Value;

const GEMMA2: &str = include_str!("../data/models/gemma2.json");
const GEMMA3: &str = include_str!("../data/models/gemma3.json");
const GPT_OSS: &str = include_str!("../data/models/gpt_oss.json");
const LLAMA31: &str = include_str!("../data/models/llama31.json");
const LLAMA4: &str = include_str!("../data/models/llama4.json");
const MISTRAL: &str = include_str!("../data/models/mistral.json");
const QWEN3: &str = include_str!("../data/models/qwen3.json");

fn read(config: &str) -> Model {
    from_config(config).unwrap_or_else(|error| panic!("{error}"))
}

/// The names of a layer's parts.
fn parts(layer: &Layer) -> Vec<&'static str> {
    layer.variant.parts().map(|part| part.desc().name).collect()
}

/// A parameter of a part, as an expression writes it.
fn value(layer: &Layer, part: &str, name: &str) -> String {
    let part = layer.variant.parts().find(|p| p.desc().name == part).expect("the part");
    let ParamValues(values) = part.to_values();
    values.into_iter().find(|(n, _)| n == name).expect("the parameter").1.to_string()
}

/// Numbers of the layers that have a part.
fn with(model: &Model, part: &str) -> Vec<usize> {
    (0..model.layers.len()).filter(|&i| parts(&model.layers[i]).contains(&part)).collect()
}

/// The configuration with a field set.
fn changed(config: &str, field: &str, to: serde_json::Value) -> serde_json::Value {
    let mut config: serde_json::Value = serde_json::from_str(config).expect("a sample");
    let inner = if config.get("text_config").is_some() { &mut config["text_config"] } else { &mut config };
    inner[field] = to;
    config
}

#[test]
fn gemma2_alternates_and_caps() {
    let model = read(GEMMA2);
    assert_eq!((model.layers.len(), model.heads), (42, Heads { qo: 16, kv: 8, head_dim: 256 }));
    assert_eq!(parts(&model.layers[0]), ["causal", "sliding_window", "rope", "soft_cap"]);
    assert_eq!(parts(&model.layers[1]), ["causal", "rope", "soft_cap"]);
    assert_eq!(with(&model, "sliding_window"), (0..42).step_by(2).collect::<Vec<_>>());
    assert_eq!(value(&model.layers[40], "sliding_window", "window"), "4096");
    assert_eq!(value(&model.layers[1], "soft_cap", "cap"), "50");
    assert!(model.layers.iter().all(|layer| layer.sm_scale == Some(0.0625)));
    let uncapped = from_value(&changed(GEMMA2, "attn_logit_softcapping", serde_json::Value::Null)).expect("no cap");
    assert_eq!(parts(&uncapped.layers[1]), ["causal", "rope"]);
}

#[test]
fn gemma3_has_five_local_layers_for_each_global_one() {
    let model = read(GEMMA3);
    assert_eq!((model.layers.len(), model.heads), (62, Heads { qo: 32, kv: 16, head_dim: 128 }));
    let global: Vec<usize> = (0..62).filter(|i| i % 6 == 5).collect();
    let local: Vec<usize> = (0..62).filter(|i| i % 6 != 5).collect();
    assert_eq!(with(&model, "sliding_window"), local);
    for i in local {
        assert_eq!(parts(&model.layers[i]), ["causal", "sliding_window", "qk_norm", "rope"]);
        assert_eq!(value(&model.layers[i], "rope", "theta"), "10000");
        assert_eq!(value(&model.layers[i], "rope", "scale"), "1");
    }
    for i in global {
        assert_eq!(parts(&model.layers[i]), ["causal", "qk_norm", "rope"]);
        assert_eq!(value(&model.layers[i], "rope", "theta"), "1000000");
        assert_eq!(value(&model.layers[i], "rope", "scale"), "8");
    }
    assert_eq!(value(&model.layers[0], "qk_norm", "offset"), "1");
    assert!(model.layers.iter().all(|layer| layer.sm_scale == Some(1.0 / 168f32.sqrt())));
    // as newer configurations write it
    let parameters = serde_json::json!({
        "full_attention": { "rope_type": "linear", "rope_theta": 2e6, "factor": 4.0 },
        "sliding_attention": { "rope_type": "default", "rope_theta": 5e4 },
    });
    let both = changed(GEMMA3, "rope_parameters", parameters.clone());
    let error = from_value(&both).expect_err("which of the two holds?").to_string();
    assert!(error.contains("`rope_scaling`"), "{error}");
    let newer =
        changed(&changed(GEMMA3, "rope_scaling", serde_json::Value::Null).to_string(), "rope_parameters", parameters);
    let newer = from_value(&newer).expect("both kinds");
    assert_eq!(value(&newer.layers[0], "rope", "theta"), "50000");
    assert_eq!(value(&newer.layers[5], "rope", "theta"), "2000000");
    assert_eq!(value(&newer.layers[5], "rope", "scale"), "4");
}

#[test]
fn gpt_oss_has_unset_sinks() {
    let model = read(GPT_OSS);
    assert_eq!((model.layers.len(), model.heads), (4, Heads { qo: 64, kv: 8, head_dim: 64 }));
    assert_eq!(parts(&model.layers[0]), ["causal", "sliding_window", "yarn", "sink"]);
    assert_eq!(parts(&model.layers[1]), ["causal", "yarn", "sink"]);
    assert_eq!(with(&model, "sliding_window"), [0, 2]);
    assert_eq!(value(&model.layers[0], "sliding_window", "window"), "128");
    let of = |name| value(&model.layers[1], "yarn", name);
    assert_eq!([of("theta"), of("factor"), of("original_len")], ["150000", "32", "4096"]);
    assert_eq!([of("truncate"), of("mscale")], ["false", "0.1"]);
    let dims = Dims { qo_heads: Some(64), head_dim: Some(64), ..Dims::default() };
    let mut layer = model.layers[0].variant.clone();
    assert_eq!(layer.missing(&dims).expect("no arithmetic").len(), 1);
    layer.set("logits", ParamValue::List(vec![ParamValue::Int(0); 64])).expect("one part has it");
    layer.bind(&dims).expect("nothing is missing");
    // a configuration without both
    let short = changed(GPT_OSS, "rope_scaling", serde_json::Value::Null);
    let mut short = changed(&short.to_string(), "layer_types", serde_json::Value::Null);
    short["num_hidden_layers"] = 6.into();
    let model = from_value(&short).expect("defaults");
    assert_eq!(with(&model, "sliding_window"), [0, 2, 4]);
    assert_eq!(value(&model.layers[0], "yarn", "factor"), "32");
}

#[test]
fn llama_scales_its_frequencies() {
    let model = read(LLAMA31);
    assert_eq!((model.layers.len(), model.heads), (32, Heads { qo: 32, kv: 8, head_dim: 128 }));
    assert_eq!(parts(&model.layers[31]), ["causal", "llama3_rope"]);
    let of = |name| value(&model.layers[0], "llama3_rope", name);
    assert_eq!([of("theta"), of("factor"), of("original_len")], ["500000", "8", "8192"]);
    assert_eq!(model.layers[0].sm_scale, None);
    let older = from_value(&changed(LLAMA31, "rope_scaling", serde_json::Value::Null)).expect("plain");
    assert_eq!(parts(&older.layers[0]), ["causal", "rope"]);
}

#[test]
fn llama4_rotates_in_three_of_four_layers() {
    let model = read(LLAMA4);
    assert_eq!((model.layers.len(), model.heads), (48, Heads { qo: 40, kv: 8, head_dim: 128 }));
    assert_eq!(with(&model, "temperature"), (0..48).filter(|i| i % 4 == 3).collect::<Vec<_>>());
    assert_eq!(parts(&model.layers[0]), ["causal", "chunked", "llama3_rope", "qk_norm"]);
    assert_eq!(parts(&model.layers[3]), ["causal", "temperature"]);
    assert_eq!(value(&model.layers[0], "chunked", "chunk"), "8192");
    assert_eq!(value(&model.layers[0], "llama3_rope", "interleaved"), "true");
    // as published: no pair is between them
    let factor = |name| value(&model.layers[0], "llama3_rope", name);
    assert_eq!([factor("low_freq_factor"), factor("high_freq_factor")], ["1", "1"]);
    assert_eq!(value(&model.layers[0], "qk_norm", "eps"), "0.00001");
    assert_eq!(value(&model.layers[3], "temperature", "floor_scale"), "8192");
    // older files have a number there
    assert_eq!(from_value(&changed(LLAMA4, "attn_temperature_tuning", 4.into())).expect("on"), model);
    let plain = from_value(&changed(LLAMA4, "use_qk_norm", false.into())).expect("no norm");
    assert_eq!(parts(&plain.layers[0]), ["causal", "chunked", "llama3_rope"]);
    let given: Vec<i32> = (0..48).map(|i| i32::from(i != 0)).collect();
    let given = from_value(&changed(LLAMA4, "no_rope_layers", given.into())).expect("one layer without");
    assert_eq!(with(&given, "temperature"), [0]);
}

#[test]
fn mistral_has_a_window_or_none() {
    let model = read(MISTRAL);
    assert_eq!((model.layers.len(), with(&model, "sliding_window").len()), (32, 32));
    let expr = "causal + sliding_window(window=4096) + rope(theta=10000, scale=1, interleaved=false, rotary_dim=0)";
    assert_eq!(model.layers[7].variant.to_string(), expr);
    let newer = from_value(&changed(MISTRAL, "sliding_window", serde_json::Value::Null)).expect("no window");
    assert_eq!(parts(&newer.layers[0]), ["causal", "rope"]);
}

#[test]
fn qwen3_normalises_before_it_rotates() {
    let model = read(QWEN3);
    assert_eq!((model.layers.len(), model.heads), (36, Heads { qo: 32, kv: 8, head_dim: 128 }));
    assert_eq!(parts(&model.layers[0]), ["causal", "qk_norm", "rope"]);
    assert_eq!(value(&model.layers[0], "rope", "theta"), "1000000");
    assert_eq!(value(&model.layers[0], "qk_norm", "offset"), "0");
    let mut windows = changed(QWEN3, "use_sliding_window", true.into());
    windows["sliding_window"] = 512.into();
    windows["max_window_layers"] = 30.into();
    assert_eq!(with(&from_value(&windows).expect("windows"), "sliding_window"), (30..36).collect::<Vec<_>>());
}

#[test]
fn every_layer_is_an_expression_and_binds() {
    for config in [GEMMA2, GEMMA3, GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3] {
        let model = read(config);
        let Heads { qo, kv, head_dim } = model.heads;
        let [qo_heads, kv_heads, head_dim] = [qo, kv, head_dim].map(|n| Some(i64::from(n)));
        let dims = Dims { qo_heads, kv_heads, head_dim, ..Dims::default() };
        for Layer { variant, .. } in &model.layers {
            attn::registry::register(attn::stock::variants()).expect("no two share a name");
            assert_eq!(&attn::Variant::parse(&variant.to_string()).expect("an expression"), variant);
            let spec = serde_json::to_string(&VariantSpec::from(variant)).expect("plain data");
            let spec: VariantSpec = serde_json::from_str(&spec).expect("a form");
            assert_eq!(&spec.build().expect("the same"), variant);
            let mut variant = variant.clone();
            for missing in variant.missing(&dims).expect("no arithmetic") {
                let zeros = vec![ParamValue::Int(0); missing.shape.expect("known")[0] as usize];
                variant.set_in(missing.part, missing.field.name, ParamValue::List(zeros)).expect("it is there");
            }
            variant.bind(&dims).expect("nothing is missing");
        }
    }
}

#[test]
fn errors_name_the_field_and_the_value() {
    let error = from_config(r#"{"model_type": "mamba"}"#).expect_err("no attention");
    assert!(matches!(&error, ModelError::Unknown { known: names, .. } if *names == known()), "{error}");
    assert!(error.to_string().starts_with("no model `mamba`; there are: gemma2, gemma3, gemma3_text, gpt_oss, llama"));
    assert_eq!(from_config("{}"), Err(ModelError::Missing { field: "model_type" }));
    assert!(matches!(from_config("{"), Err(ModelError::Json(_))));
    for (field, to, words) in [
        (
            "num_hidden_layers",
            serde_json::json!(null),
            "`num_hidden_layers` is a whole number from 1 to 1024; got `null`",
        ),
        ("num_hidden_layers", serde_json::json!(-3), "`num_hidden_layers` is a whole number from 1 to 1024; got `-3`"),
        ("sliding_window", serde_json::json!("4k"), "`sliding_window` is a whole number above 0; got `\"4k\"`"),
        ("layer_types", serde_json::json!(["full_attention"]), "`layer_types` is one text for each layer"),
        ("layer_types", serde_json::json!(vec!["mamba"; 42]), "`layer_types[0]` is `mamba`"),
        ("rope_scaling", serde_json::json!({"rope_type": "longrope"}), "`rope_type` is `longrope`"),
        ("rope_scaling", serde_json::json!({"rope_type": "linear"}), "no `factor`"),
        ("use_bidirectional_attention", serde_json::json!(true), "`use_bidirectional_attention` is `true`"),
    ] {
        let error = from_value(&changed(GEMMA2, field, to)).expect_err(field).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn absurd_numbers_of_layers_are_refused_at_once() {
    for layers in [1025u64, 2_147_483_647, 4_294_967_295, u64::MAX] {
        for config in [GEMMA2, GEMMA3, GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3] {
            let error = from_value(&changed(config, "num_hidden_layers", layers.into())).expect_err("too many");
            assert!(error.to_string().contains("`num_hidden_layers` is a whole number"), "{error}");
        }
    }
    let most = from_value(&changed(LLAMA31, "num_hidden_layers", 1024.into())).expect("many, and possible");
    assert_eq!(most.layers.len(), 1024);
}

/// A field that changes attention and that a family does not have is refused; at the value that changes nothing it is
/// not.
#[test]
fn fields_that_are_not_understood_are_refused_by_name() {
    use serde_json::json;
    let all = [GEMMA2, GEMMA3, GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3];
    let cases: &[(&str, &[&str], Value, Value)] = &[
        ("partial_rotary_factor", &all, json!(0.5), json!(1.0)),
        ("rotary_pct", &all, json!(0.25), json!(1)),
        ("kv_lora_rank", &all, json!(512), Value::Null),
        ("use_alibi", &all, json!(true), json!(false)),
        ("attn_logit_softcapping", &[GEMMA3, GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3], json!(50.0), Value::Null),
        ("query_pre_attn_scalar", &[GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3], json!(256), Value::Null),
        ("sliding_window", &[LLAMA31], json!(4096), Value::Null),
        ("layer_types", &[LLAMA31, MISTRAL], json!(["sliding_attention"]), json!(["full_attention"])),
        ("use_bidirectional_attention", &all, json!(true), json!(false)),
        ("use_sliding_window", &[LLAMA31, MISTRAL], json!(true), json!(false)),
        ("use_qk_norm", &[GEMMA2, LLAMA31], json!(true), json!(false)),
        ("no_rope_layers", &[LLAMA31], json!([1, 0]), json!([])),
        ("rope_interleaved", &[LLAMA31], json!(true), json!(false)),
    ];
    for (field, configs, changes, neutral) in cases {
        for config in *configs {
            let error = from_value(&changed(config, field, changes.clone())).expect_err(field);
            let named = matches!(&error, ModelError::Unsupported { field: name, .. } if name == field);
            assert!(named && error.to_string().contains(field), "{field}: {error:?}");
            assert_eq!(from_value(&changed(config, field, neutral.clone())), Ok(read(config)), "{field}");
        }
    }
}

#[test]
fn what_is_left_unread_of_a_rotary_embedding_is_refused() {
    use serde_json::json;
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096});
    for (scaling, field) in [
        (json!({"rope_type": "linear", "factor": 4.0, "low_freq_factor": 1.0}), "low_freq_factor"),
        (json!({"rope_type": "default", "mrope_section": [16, 24, 24]}), "mrope_section"),
        (json!({"rope_type": "default", "partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        (json!({"rope_type": "linear", "factor": 0.0}), "factor"),
        (json!({"rope_type": "linear", "factor": -2.0}), "factor"),
        (json!({"full_attention": yarn, "attention_factor": 1.0}), "attention_factor"),
        (json!({"rope_theta": 0.0}), "rope_theta"),
    ] {
        let name = if scaling.get("full_attention").is_some() { "rope_parameters" } else { "rope_scaling" };
        let name = if scaling.get("rope_theta").is_some() { "rope_parameters" } else { name };
        let mut config = changed(LLAMA31, "rope_scaling", serde_json::Value::Null);
        config[name] = scaling.clone();
        let error = from_value(&config).expect_err(field).to_string();
        assert!(error.contains(&format!("`{field}`")), "{scaling}: {error}");
    }
    let same = json!({"rope_type": "default", "partial_rotary_factor": 1.0, "finetuned": true});
    from_value(&changed(LLAMA31, "rope_scaling", same)).expect("nothing changes");
}

#[test]
fn lists_and_numbers_that_do_not_fit_are_refused() {
    use serde_json::json;
    for (config, field, to, words) in [
        (GEMMA2, "layer_types", json!(vec!["full_attention"; 43]), "one text for each layer; got `a list of 43`"),
        (GEMMA2, "layer_types", json!("full_attention"), "`layer_types` is a list"),
        (GEMMA2, "attn_logit_softcapping", json!(-50.0), "`attn_logit_softcapping` is a number above 0"),
        (GEMMA2, "query_pre_attn_scalar", json!(0), "`query_pre_attn_scalar` is a whole number above 0"),
        (LLAMA4, "no_rope_layers", json!(4), "`no_rope_layers` is a list"),
        (LLAMA4, "no_rope_layers", json!(vec![1; 49]), "`no_rope_layers` is 0 or 1 for each layer"),
        (LLAMA31, "hidden_size", json!(4097), "`hidden_size` is a multiple of `num_attention_heads`"),
        (LLAMA31, "hidden_size", json!(16), "`hidden_size` is a multiple of `num_attention_heads`"),
    ] {
        let error = from_value(&changed(config, field, to)).expect_err(field).to_string();
        assert!(error.contains(words), "{error}");
    }
    // a message does not repeat a long value
    let error = from_value(&changed(GEMMA2, "sliding_window", json!(vec![7; 10_000]))).expect_err("no number");
    assert!(error.to_string().len() < 200, "{error}");
    let error = from_value(&json!({"model_type": "gemma3", "text_config": 3})).expect_err("no object").to_string();
    assert!(error.contains("`text_config` is an object"), "{error}");
}

/// The sparse text configurations of Gemma 3, as they are published, and others that leave fields out.
#[test]
fn fields_left_out_have_the_defaults_of_the_class() {
    use serde_json::json;
    let published = |more: Value| {
        let mut text = json!({
            "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        });
        text.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        json!({"model_type": "gemma3", "text_config": text, "vision_config": {"num_hidden_layers": 27}})
    };
    let larger = json!({"hidden_size": 3840, "num_attention_heads": 16, "num_key_value_heads": 8});
    for (more, [qo, kv]) in [(json!({}), [8, 4]), (larger, [16, 8])] {
        let model = from_value(&published(more)).expect("a published file");
        assert_eq!(model.heads, Heads { qo, kv, head_dim: 256 });
        assert_eq!(model.layers[0].sm_scale, Some(1.0 / 16.0));
        assert_eq!(value(&model.layers[0], "sliding_window", "window"), "1024");
    }
    let heads = |config: Value| from_value(&config).expect("a sparse file").heads;
    let qwen3 =
        json!({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8});
    assert_eq!(heads(qwen3), Heads { qo: 16, kv: 8, head_dim: 128 });
    assert_eq!(heads(json!({"model_type": "mistral"})), Heads { qo: 32, kv: 8, head_dim: 128 });
    assert_eq!(heads(json!({"model_type": "gpt_oss"})), Heads { qo: 64, kv: 8, head_dim: 64 });
    assert_eq!(heads(json!({"model_type": "llama4"})), Heads { qo: 40, kv: 8, head_dim: 128 });
    let windows = |fields: Value| {
        let mut config = json!({"model_type": "qwen3", "num_hidden_layers": 30, "use_sliding_window": true});
        config.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        with(&from_value(&config).expect("windows"), "sliding_window")
    };
    assert_eq!(windows(json!({})), [28, 29]);
    assert_eq!(windows(json!({"max_window_layers": 0})), (0..30).collect::<Vec<_>>());
}

/// `null` is the class's `None`: no window, no chunk, no cap; of most fields it is refused.
#[test]
fn null_is_not_left_out() {
    use serde_json::{Value::Null, json};
    let of = |model: &str, field: &str, part: &str, name: &str| {
        let base = json!({"model_type": model, "num_hidden_layers": 4});
        let left_out = value(&from_value(&base).expect("defaults").layers[0], part, name);
        let null = from_value(&changed(&base.to_string(), field, Null)).expect("none");
        assert!(with(&null, part).is_empty(), "{model}: {field}");
        left_out
    };
    assert_eq!(of("gemma2", "attn_logit_softcapping", "soft_cap", "cap"), "50");
    assert_eq!(of("gemma2", "sliding_window", "sliding_window", "window"), "4096");
    assert_eq!(of("gemma3_text", "sliding_window", "sliding_window", "window"), "4096");
    assert_eq!(of("mistral", "sliding_window", "sliding_window", "window"), "4096");
    assert_eq!(of("gpt_oss", "sliding_window", "sliding_window", "window"), "128");
    assert_eq!(of("llama4_text", "attention_chunk_size", "chunked", "chunk"), "8192");
    for (config, field) in [
        (GEMMA2, "head_dim"),
        (GEMMA2, "query_pre_attn_scalar"),
        (MISTRAL, "num_key_value_heads"),
        (QWEN3, "rms_norm_eps"),
        (QWEN3, "rope_theta"),
        (LLAMA4, "floor_scale"),
    ] {
        let error = from_value(&changed(config, field, Null)).expect_err(field).to_string();
        assert!(error.contains(&format!("`{field}` is")) && error.contains("got `null`"), "{error}");
    }
}

#[test]
fn models_that_are_not_causal_attend_to_both_sides() {
    use serde_json::json;
    let embedding =
        |config: &str, field: &str, to: bool| from_value(&changed(config, field, to.into())).expect("known");
    assert_eq!(parts(&embedding(QWEN3, "is_causal", false).layers[0]), ["qk_norm", "rope"]);
    assert_eq!(embedding(QWEN3, "is_causal", true), read(QWEN3));
    let both = embedding(MISTRAL, "is_causal", false);
    assert_eq!(parts(&both.layers[0]), ["bidirectional_window", "rope"]);
    assert_eq!(value(&both.layers[0], "bidirectional_window", "left"), "4096");
    // chunks stay causal
    let llama4 = embedding(LLAMA4, "is_causal", false);
    assert_eq!(parts(&llama4.layers[0]), ["causal", "chunked", "llama3_rope", "qk_norm"]);
    assert_eq!(parts(&llama4.layers[3]), ["temperature"]);
    // the text model of Gemma 3, whose window is of both sides together
    let gemma3 = json!({"model_type": "gemma3_text", "sliding_window": 512, "use_bidirectional_attention": true});
    let gemma3 = from_value(&gemma3).expect("an embedding model");
    assert_eq!(parts(&gemma3.layers[0]), ["bidirectional_window", "qk_norm", "rope"]);
    assert_eq!(value(&gemma3.layers[0], "bidirectional_window", "right"), "256");
    assert_eq!(parts(&gemma3.layers[5]), ["qk_norm", "rope"]);
    let whole = changed(GEMMA3, "use_bidirectional_attention", true.into());
    assert!(from_value(&whole).is_err_and(|error| error.to_string().contains("`use_bidirectional_attention`")));
}

#[test]
fn attention_factors_of_yarn_are_kept() {
    use serde_json::json;
    let dims = Dims { head_dim: Some(128), ..Dims::default() };
    for (factor, given, want) in [
        (64.0, json!({"attention_factor": 0.8}), 0.8),
        (64.0, json!({"attention_factor": 1.0}), 1.0),
        (64.0, json!({}), 0.1 * 64f64.ln() + 1.0),
        (40.0, json!({"mscale": 2.0}), 0.1 * 40f64.ln() + 1.0),
        (40.0, json!({"mscale": 1.0, "mscale_all_dim": 2.0}), (0.1 * 40f64.ln() + 1.0) / (0.2 * 40f64.ln() + 1.0)),
        (1.0, json!({"attention_factor": 1.2}), 1.2),
        (1.0, json!({"attention_factor": 0.5}), 0.5),
        (1.0, json!({}), 1.0),
    ] {
        let mut scaling = json!({"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096});
        scaling.as_object_mut().expect("an object").extend(given.as_object().expect("fields").clone());
        let model = from_value(&changed(LLAMA31, "rope_scaling", scaling)).expect("a factor of rows");
        let variant = model.layers[0].variant.bind(&dims).expect("nothing is missing");
        let mut row = [1.0f32; 128];
        variant.query_row(&mut row, RowIndex { qo_pos: 0, ..RowIndex::default() });
        assert!((f64::from(row[0]) - want).abs() < 1e-6, "{given}: {} is not {want}", row[0]);
    }
}

/// Files that look like those of known models.
#[test]
fn hostile_files_are_typed_errors() {
    use serde_json::{Value::Null, json};
    let refused = |config: &Value| from_value(config).expect_err(&config.to_string()).to_string();
    for (config, words) in [
        (json!({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}), "no `model_type`"),
        (json!({"model_type": null}), "`model_type` is a text; got `null`"),
        (json!({"model_type": ["llama"]}), "`model_type` is a text"),
        (json!([{"model_type": "llama"}]), "no `model_type`"),
        (json!("llama"), "no `model_type`"),
        (json!({"model_type": "LLAMA"}), "no model `LLAMA`"),
        (json!({"model_type": "llama", "text_config": {"num_hidden_layers": 2}}), "`text_config`"),
        (json!({"model_type": "gemma3", "text_config": {"text_config": {"head_dim": 64}}}), "`text_config`"),
        (json!({"model_type": "gemma3", "text_config": {"model_type": "gemma3n_text"}}), "`text_config.model_type`"),
        (json!({"model_type": "gemma3", "head_dim": 128, "num_hidden_layers": 2}), "in `text_config`"),
        (json!({"model_type": "gemma3", "text_config": {}, "is_causal": false}), "`is_causal`"),
        (json!({"model_type": "llama", "per_layer_config": {"0": {"head_dim": 64}}}), "`per_layer_config`"),
    ] {
        let error = refused(&config);
        assert!(error.contains(words), "{config}: {error}");
    }
    let counts = ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size"];
    let values =
        [json!("32"), json!(32.0), json!(-1), json!(0), json!(1e18), json!(u64::MAX), json!(true), json!([32])];
    for config in [GEMMA2, GEMMA3, GPT_OSS, LLAMA31, LLAMA4, MISTRAL, QWEN3] {
        for field in counts {
            for wrong in &values {
                let error = refused(&changed(config, field, wrong.clone()));
                assert!(error.contains(&format!("`{field}` is a whole number")), "{field} {wrong}: {error}");
            }
        }
        for (field, wrong) in [("rope_theta", json!("1e4")), ("rope_theta", json!(-1)), ("rope_theta", json!(1e39))] {
            let error = refused(&changed(config, field, wrong));
            assert!(error.contains("`rope_theta` is a number above 0"), "{error}");
        }
        for (field, wrong) in [("is_causal", json!("false")), ("is_causal", json!(0.5)), ("is_causal", json!([]))] {
            let error = refused(&changed(config, field, wrong));
            assert!(error.contains("`is_causal` is true or false"), "{error}");
        }
        for kv in [7, 128] {
            let error = refused(&changed(config, "num_key_value_heads", kv.into()));
            assert!(error.contains("`num_key_value_heads` is a divisor of"), "{error}");
        }
        assert!(refused(&changed(config, "head_dim", 63.into())).contains("`head_dim` is an even number"));
        for form in [json!([]), json!("yarn"), json!(8), json!({"rope_type": 4}), json!({"rope_type": Null})] {
            let error = refused(&changed(config, "rope_scaling", form.clone()));
            assert!(
                error.contains("`rope_scaling` is an object") || error.contains("`rope_type` is"),
                "{form}: {error}"
            );
        }
    }
    for window in [json!(0), json!(-1), json!(4096.0), json!("4096"), json!(1u64 << 31)] {
        for config in [GEMMA2, GEMMA3, GPT_OSS, MISTRAL] {
            let error = refused(&changed(config, "sliding_window", window.clone()));
            assert!(error.contains("`sliding_window` is a whole number above 0"), "{error}");
        }
    }
    assert!(matches!(from_config(r#"{"model_type": "llama", "rope_theta": NaN}"#), Err(ModelError::Json(_))));
    assert!(matches!(from_config(r#"{"model_type": "llama", "rope_theta": 1e999}"#), Err(ModelError::Json(_))));
}
