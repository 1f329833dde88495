//! Cases as JSON lines.

use super::{Case, HeadDimVo, LayoutKind, Lens, LevelCase, Order, Pool};

const LINE: &str = concat!(
    r#"{"variant":"full","dtype":"bf16","qo_heads":8,"kv_heads":2,"head_dim":64,"#,
    r#""qo_lens":{"repeat":[3,5]},"kv_lens":[1,2,3]}"#
);

/// The line with a field more.
fn with(field: &str) -> String {
    LINE.replace("{\"variant\"", &format!("{{{field},\"variant\""))
}

#[test]
fn notes_are_kept() {
    let cases = Case::parse_lines(&with(r#""meta":{"why":["x"]}"#)).expect("a case");
    assert_eq!(cases[0].qo_lens.to_vec(), [5, 5, 5]);
    assert_eq!((cases[0].kv_layout, cases[0].page_order), (LayoutKind::Ragged, Order::Nhd));
    let back = serde_json::to_value(&cases[0]).expect("JSON");
    assert_eq!(back["meta"]["why"][0], "x");
    assert_eq!(back["qo_lens"]["repeat"][1], 5);
}

#[test]
fn unknown_fields_are_refused_at_every_level() {
    for (field, why) in [
        (r#""fixed_split_sise":1024"#, "unknown field `fixed_split_sise`; did you mean `fixed_split_size`?"),
        (r#""kv_dtyp":"e4m3""#, "unknown field `kv_dtyp`; did you mean `kv_dtype`?"),
        (r#""mine":1"#, "unknown field `mine`, expected one of `name`"),
        (r#""seed":1,"seed":1"#, "duplicate field `seed`"),
        (r#""meta":{"a":1,"a":2}"#, "duplicate field `a`"),
        (r#""kv_layout":"page""#, "unknown variant `page`; did you mean `paged`?"),
        (r#""page_order":"NDH""#, "unknown variant `NDH`; did you mean `NHD`?"),
        (r#""pool":"fuse""#, "unknown variant `fuse`; did you mean `fused`?"),
        (r#""ours_also":["flatt"]"#, "unknown variant `flatt`; did you mean `flat`?"),
        (r#""sparse":{"page":16,"keep":0.5,"head":"own"}"#, "unknown field `head`; did you mean `heads`?"),
        (r#""sparse":{"page":16}"#, "missing field `keep`"),
        (r#""tables":{"a.b":"lengths","a.b":"lengths"}"#, "duplicate field `a.b`"),
        (r#""levels":[{"groups":[3],"kv_lens":[1],"page_sise":16}]"#, "unknown field `page_sise`; did you mean"),
        (r#""levels":[{"groups":[3],"kv_lens":{"repeat":[1,1],"more":1}}]"#, "lengths are a list"),
    ] {
        let error = Case::parse_lines(&with(field)).expect_err(field).to_string();
        assert!(error.starts_with("line 1 is not a case: ") && error.contains(why), "{field}: {error}");
    }
}

#[test]
fn the_head_dim_of_values_is_a_number_or_a_string() {
    let mut case = Case::new("full");
    for (values, written) in [(HeadDimVo::Dim(128), "128"), (HeadDimVo::SharedWithKeys(512), "\"keys:512\"")] {
        case.head_dim_vo = values;
        let text = serde_json::to_string(&case).expect("JSON");
        assert!(text.contains(&format!("\"values\":{written}")), "{text}");
        assert_eq!(Case::parse_lines(&text).expect("a case"), [case.clone()]);
    }
    let bad = serde_json::to_string(&case).expect("JSON").replace("keys:512", "key:512");
    let error = Case::parse_lines(&bad).expect_err("no such values").to_string();
    assert!(error.contains("key:512") && error.contains("keys:NUMBER"), "{error}");
    assert_eq!((case.dims().head_dim, case.dims().value_dim), (Some(64), Some(512)));
}

#[test]
fn an_invalid_line_is_reported_by_number() {
    let good = serde_json::to_string(&Case::new("full")).expect("JSON");
    let error = Case::parse_lines(&format!("{good}\n\n{{\"variant\":1}}")).expect_err("line 3 is bad");
    assert!(error.to_string().contains("line 3"), "{error}");
    let bad = |lens: &str| {
        let line = serde_json::json!({"variant": "full", "dtype": "bf16", "qo_heads": 1, "kv_heads": 1, "head_dim": 8});
        let line = line.to_string().replace('}', &format!(", \"qo_lens\": {lens}, \"kv_lens\": {lens}}}"));
        Case::parse_lines(&line).expect_err(lens).to_string()
    };
    assert!(bad("[-1]").contains("whole numbers from 0"), "{}", bad("[-1]"));
    let many = bad(r#"{"repeat": [4294967295, 1]}"#);
    assert!(many.contains("4294967295 requests are too many") && many.contains("1048576"), "{many}");
    let mut case = Case::new("full");
    (case.qo_lens, case.kv_lens) = (Lens::List(vec![u32::MAX; 4]), Lens::List(vec![u32::MAX; 4]));
    assert_eq!(case.check_cost(), u64::MAX);
    let mut case = Case::new("full");
    case.kv_lens = Lens::List(vec![1]);
    let text = serde_json::to_string(&case).expect("JSON");
    let error = Case::parse_lines(&text).expect_err("lengths differ");
    assert!(error.to_string().contains("qo_lens has 2 requests and kv_lens has 1"), "{error}");
}

#[test]
fn levels_are_parsed_counted_and_checked() {
    let line = r#"{"variant":"full","kernel":"mixed","dtype":"f16","qo_heads":2,"kv_heads":1,"head_dim":64,
        "kv_layout":"cascade","page_size":8,"pool":"fused",
        "levels":[{"groups":[3,1],"kv_lens":[40,0],"page_size":16},{"groups":[1,2,1],"kv_lens":[1,2,3]}],
        "qo_lens":[1,1,2,1],"kv_lens":[5,0,7,9]}"#;
    let case = Case::parse_lines(&line.replace('\n', "")).expect("a case").remove(0);
    assert_eq!((case.kv_layout, case.pool), (LayoutKind::Cascade, Pool::Fused));
    assert_eq!(case.all_kv_lens(), [46, 42, 49, 12]);
    assert_eq!((case.dims().kv_tokens, case.check_cost()), (Some(149), 2 * 128 * (46 + 42 + 98 + 12)));
    let back = serde_json::to_value(&case).expect("JSON");
    assert_eq!((&back["kv_layout"], &back["levels"][0]["page_size"]), (&"cascade".into(), &16.into()));
    type Make = fn(&mut Case);
    let wrong: [(Make, &str); 6] = [
        (|c| c.levels.clear(), "a cascade has levels"),
        (|c| c.kv_layout = LayoutKind::BlockTable, "a cascade has levels"),
        (|c| c.levels[0].groups = vec![3, 2], "level 0 have 5 requests, of 4"),
        (|c| c.levels[1].kv_lens = Lens::List(vec![1]), "level 1 has 3 groups and lengths of 1"),
        (|c| c.levels[0].page_size = Some(12), "no multiple of 8"),
        (|c| (c.kv_layout, c.pool) = (LayoutKind::Cascade, Pool::Packed), "are ragged"),
    ];
    for (make, why) in wrong {
        let mut case = case.clone();
        make(&mut case);
        let text = serde_json::to_string(&case).expect("JSON");
        let error = Case::parse_lines(&text).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(LevelCase { page_size: None, ..case.levels[0].clone() }.groups, [3, 1]);
}
