"""Steps of an engine over recorded batches, against attention by its definition."""

import pytest

torch = pytest.importorskip("torch")

import stub  # noqa: E402
from batches import RECORDED  # noqa: E402

import attn_rs  # noqa: E402


def filled(engine, module, seed=0):
    """Random keys and values in all pages."""
    torch.manual_seed(seed)
    module.kv_cache.copy_(engine.random(*module.kv_cache.shape))


def step(engine, module, builder, batch, common_prefix_len=0, seed=1):
    """Appends and attends. Returns rows of queries and outputs, and the metadata."""
    common = engine.common(**batch)
    metadata = builder.build(common_prefix_len, common)
    torch.manual_seed(seed)
    rows, impl = common.num_actual_tokens, module.impl
    q = engine.random(rows, impl.num_heads, impl.head_size)
    k, v = (engine.random(rows, impl.num_kv_heads, impl.head_size) for _ in range(2))
    out = torch.full_like(q, torch.nan)
    impl.do_kv_cache_update(module, k, v, module.kv_cache, common.slot_mapping)
    impl.forward(module, q, k, v, module.kv_cache, metadata, out)
    return q, out, metadata


def check(engine, module, batch, q, out, pools=None, **how):
    cache, dim, first = module.kv_cache, module.impl.head_size, 0
    k_pool, v_pool = pools or (cache[..., :dim], cache[..., dim:])
    for queries, keys, pages in zip(batch["queries"], batch["keys"], batch["tables"], strict=True):
        k, v = (pool[pages].transpose(1, 2).reshape(-1, pool.shape[1], dim)[:keys] for pool in (k_pool, v_pool))
        rows = slice(first, first + queries)
        want = stub.reference(q[rows], k, v, module.impl.scale, **how)
        torch.testing.assert_close(out[rows].float(), want, **engine.close)
        first += queries


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_batches(engine, name):
    module = engine.layer()
    filled(engine, module)
    q, out, _ = step(engine, module, engine.builder(), RECORDED[name])
    check(engine, module, RECORDED[name], q, out)


@pytest.mark.parametrize("name", ["decoding", "decoding beside prompts", "beside prompts in a larger graph"])
def test_parts_apart_have_the_same_rows(engine, name):
    engine.config.additional_config = {"attn_rs": {"mixed": "apart"}}
    module = engine.layer()
    filled(engine, module)
    q, out, metadata = step(engine, module, engine.builder(), RECORDED[name])
    assert [part.role for part in metadata.parts] == (["mixed"] if name == "decoding" else ["decode", "prefill"])
    check(engine, module, RECORDED[name], q, out)


def window(size):
    return lambda at_query, at_key: (at_key <= at_query) & (at_query - at_key < size)


def test_what_models_ask_for(engine):
    batch, slopes = RECORDED["decoding beside prompts"], [0.5, 0.25, 0.125, 0.0625]
    sink = torch.randn(4, device=engine.device)
    for how, want in [
        ({"sliding_window": 20}, {"keep": window(20)}),
        ({"logits_soft_cap": 5.0}, {"cap": 5.0}),
        ({"alibi_slopes": slopes}, {"bias": torch.tensor(slopes, device=engine.device)}),
        ({"sinks": sink}, {"sink": sink}),
        ({"sinks": sink, "sliding_window": 7}, {"sink": sink, "keep": window(7)}),
    ]:
        module = engine.layer(**how)
        filled(engine, module)
        q, out, _ = step(engine, module, engine.builder("layer.0"), batch)
        check(engine, module, batch, q, out, **want)


def test_layers_of_two_kinds_in_one_group(engine):
    batch, sinks = RECORDED["decoding"], [torch.randn(4, device=engine.device) for _ in range(3)]
    modules = [engine.layer(f"layer.{i}", sinks=sinks[i], sliding_window=5 if i == 1 else None) for i in range(3)]
    builder = engine.builder()
    metadata = builder.build(0, engine.common(**batch))
    for module, sink in zip(modules, sinks, strict=True):
        filled(engine, module)
        q = engine.random(3, 4, engine.DIM)
        out = torch.empty_like(q)
        module.impl.forward(module, q, None, None, module.kv_cache, metadata, out)
        keep = window(5) if module is modules[1] else None
        check(engine, module, batch, q, out, sink=sink, keep=keep)
    assert len(builder.group._plans) == 2


def test_not_causal(engine):
    batch = RECORDED["a later part of a prompt"]
    module = engine.layer()
    filled(engine, module)
    builder = engine.builder()
    metadata = builder.build(0, engine.common(**batch, causal=False))
    q = engine.random(20, 4, engine.DIM)
    out = torch.empty_like(q)
    module.impl.forward(module, q, None, None, module.kv_cache, metadata, out)
    check(engine, module, batch, q, out, keep=lambda at_query, at_key: at_key >= 0 * at_query)


@pytest.mark.parametrize("cache_dtype", ["fp8", "fp8_e5m2"])
def test_fp8_caches(engine, cache_dtype):
    batch = RECORDED["decoding beside prompts"]
    module = engine.layer(cache_dtype=cache_dtype)
    module._k_scale_float, module._v_scale_float = 0.5, 2.0
    stored = {"fp8": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}[cache_dtype]
    module.kv_cache.copy_(torch.randn(module.kv_cache.shape, device=engine.device).to(stored).view(torch.uint8))
    builder = engine.builder()
    q, out, _ = step(engine, module, builder, batch)
    # those of prompts alone are widened
    plans = builder.group.plans(module.impl.layer, True)._plans
    assert list(plans) == [("decode", 0, 0), ("prefill", 0, 4096)]
    cache = module.kv_cache.view(stored).float()
    check(engine, module, batch, q, out, (cache[..., : engine.DIM] * 0.5, cache[..., engine.DIM :] * 2.0))


@pytest.mark.parametrize("kv_format", ["int8", "int8 / int4(group=32)", "int4(group=32, zero=true)", "mx_fp8"])
def test_kv_formats(engine, kv_format):
    engine.config.additional_config = {"attn_rs": {"kv_format": kv_format}}
    module = engine.layer()
    builder, prompt = engine.builder(), RECORDED["a prompt"]
    q, out, _ = step(engine, module, builder, prompt)
    torch.manual_seed(1)
    engine.random(37, 4, engine.DIM)
    k, v = (engine.random(37, 2, engine.DIM) for _ in range(2))
    want = stub.reference(q, k, v, engine.DIM**-0.5)
    assert module.kv_cache.dtype == torch.uint8 and module.kv_cache.shape[-1] < 2 * 4 * engine.DIM
    error = ((out - want).norm() / want.norm()).item()
    assert 1e-4 < error < (0.12 if "int4" in kv_format else 0.06), error


def test_a_cascade_of_what_requests_share(engine):
    engine.config.additional_config = {"attn_rs": {"cascade": "always"}}
    module = engine.layer()
    filled(engine, module)
    builder = engine.builder()
    for name in ("a prefix of two pages that all share", "decoding in a larger graph", "decoding"):
        q, out, metadata = step(engine, module, builder, RECORDED[name])
        assert metadata.parts[0].role == "mixed"
        check(engine, module, RECORDED[name], q, out)
    engine.config.additional_config = {}
    for of in (engine.builder(), builder):
        assert of.build(0, engine.common(**RECORDED["decoding beside prompts"])).parts[0].role == "prefill"
    assert engine.builder().build(0, engine.common(**RECORDED["decoding"])).parts[0].role == "mixed"
    one = engine.common(queries=[1], keys=[40], tables=[[1, 2, 3]])
    assert engine.builder().build(0, one).parts[0].role == "decode"
    engine.config.additional_config = {"attn_rs": {"cascade": "off"}}
    assert engine.builder().build(0, engine.common(**RECORDED["decoding"])).parts[0].role == "decode"


def test_a_variant_that_cascades_do_not_run_has_none(engine, monkeypatch):
    from attn_rs_vllm import kinds

    attention = kinds.Kind.attention

    def refusing(self, params, device, dtype, role, fixed_split_size=None):
        if role == "mixed":
            raise attn_rs.AttnError("this kernel does not run the variant")
        return attention(self, params, device, dtype, role, fixed_split_size)

    monkeypatch.setattr(kinds.Kind, "attention", refusing)
    module = engine.layer()
    filled(engine, module)
    batch = RECORDED["a prefix of two pages that all share"]
    q, out, metadata = step(engine, module, engine.builder(), batch)
    assert metadata.parts[0].role == "decode"
    check(engine, module, batch, q, out)
    engine.config.additional_config = {"attn_rs": {"cascade": "always"}}
    with pytest.raises(attn_rs.AttnError, match="does not run"):
        step(engine, module, engine.builder(), batch)


def test_a_variant_by_configuration(engine):
    engine.config.additional_config = {"attn_rs": {"variant": "{model} + sliding_window(window=9)"}}
    batch = RECORDED["decoding beside prompts"]
    module = engine.layer(logits_soft_cap=4.0)
    filled(engine, module)
    q, out, _ = step(engine, module, engine.builder(), batch)
    check(engine, module, batch, q, out, cap=4.0, keep=window(9))
    engine.config.additional_config = {"attn_rs": {"variant_window": "causal", "variant": "full"}}
    assert engine.layer(sliding_window=8).impl.layer.kind(True).expression == "causal"
    assert engine.layer().impl.layer.kind(True).expression == "full"


def test_graphs_are_captured_with_plans_that_are_there(engine):
    engine.config.additional_config = {"attn_rs": {"cascade": "off"}}
    module = engine.layer()
    builder = engine.builder()
    common = engine.common(queries=[1, 1], keys=[200, 200], tables=[[0] * 13] * 2, padded_requests=2, padded_tokens=2)
    metadata = builder.build_for_cudagraph_capture(common)
    plans = builder.group.plans(module.impl.layer, True)
    assert list(plans._plans) == [("decode", 4, 0)]
    assert metadata.parts[0].role == "decode"
    engine.config.compilation_config.cudagraph_mode.separate = False
    assert builder.build_for_cudagraph_capture(common).parts[0].role == "prefill"
    assert list(plans._plans) == [("decode", 4, 0), ("prefill", 4, 0)]


@pytest.mark.parametrize("shares", ["off", "always"])
def test_a_graph_plans_what_is_there(engine, shares):
    if engine.device.type == "cpu":
        pytest.skip("no CUDA device")
    engine.config.additional_config = {"attn_rs": {"cascade": shares}}
    module = engine.layer(sinks=torch.randn(4, device=engine.device))
    filled(engine, module)
    builder = engine.builder()
    rows, batch = 4, RECORDED["decoding in a larger graph"]
    common = engine.common(**batch)
    q, k, v = (engine.random(rows, heads, engine.DIM) for heads in (4, 2, 2))
    out = torch.zeros_like(q)

    def layer(metadata):
        module.impl.do_kv_cache_update(module, k, v, module.kv_cache, common.slot_mapping)
        module.impl.forward(module, q, k, v, module.kv_cache, metadata, out)

    layer(builder.build_for_cudagraph_capture(common))
    torch.cuda.synchronize()
    metadata, graph = builder.build_for_cudagraph_capture(common), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(metadata)
    apart, together = [[11, 12, 13], [4], [7, 6, 5]], [[11, 12, 13], [11, 12], [11, 6, 5]]
    steps = ([40, 3, 17], apart), ([41, 17, 33], together), ([7, 16, 33], apart), ([48, 32, 17], together)
    for keys, tables in steps:
        now = engine.common(**dict(batch, keys=keys, tables=tables))
        for name in ("query_start_loc", "seq_lens", "block_table_tensor", "slot_mapping"):
            getattr(common, name).copy_(getattr(now, name))
        graph.replay()
        sink = module.impl.layer._tensors["sink.logits"]
        check(engine, module, dict(batch, keys=keys, tables=tables), q, out, sink=sink)


@pytest.mark.parametrize("split_size", [0, 512])
def test_bits_do_not_depend_on_neighbours(engine, monkeypatch, split_size):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    engine.config.additional_config = {"attn_rs": {"split_size": split_size}}
    module = engine.layer()
    filled(engine, module)
    builder, batch = engine.builder(), RECORDED["decoding beside prompts"]
    q, out, metadata = step(engine, module, builder, batch)
    assert [part.role for part in metadata.parts] == (["decode", "prefill"] if split_size else ["prefill"])
    first = 0
    for queries, keys, pages in zip(batch["queries"], batch["keys"], batch["tables"], strict=True):
        metadata = builder.build(0, engine.common([queries], [keys], [pages]))
        rows = slice(first, first + queries)
        alone = torch.empty_like(q[rows])
        module.impl.forward(module, q[rows].contiguous(), None, None, module.kv_cache, metadata, alone)
        assert torch.equal(alone, out[rows])
        first += queries


@pytest.mark.parametrize("sliding_window", [None, 30])
def test_bits_do_not_depend_on_whether_a_token_is_decoded(engine, monkeypatch, sliding_window):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    module = engine.layer(sliding_window=sliding_window)
    filled(engine, module)
    builder, tables = engine.builder(), [[11, 12, 13], [14, 2, 3]]
    q, out, _ = step(engine, module, builder, dict(queries=[40, 33], keys=[40, 48], tables=tables))
    for end in range(1, 41):
        # tokens of the prompts, decoded side by side
        rows = [end - 1, 40 + min(end, 33) - 1]
        common = engine.common([1, 1], [end, 15 + min(end, 33)], tables)
        decoded = torch.empty_like(q[rows])
        module.impl.forward(module, q[rows], None, None, module.kv_cache, builder.build(0, common), decoded)
        assert torch.equal(decoded, out[rows])


def test_a_table_is_replaced(engine):
    batch = RECORDED["decoding"]
    module = engine.layer()
    filled(engine, module)
    builder = engine.builder()
    first = builder.build(0, engine.common(**batch))
    other = dict(batch, tables=[[11, 12, 13], [14], [17, 16]])
    common = engine.common(**other)
    metadata = builder.update_block_table(first, common.block_table_tensor, common.slot_mapping)
    q = engine.random(3, 4, engine.DIM)
    out = torch.empty_like(q)
    module.impl.forward(module, q, None, None, module.kv_cache, metadata, out)
    check(engine, module, other, q, out)


def test_steps_of_any_number_of_rows_have_one_plan(engine):
    module = engine.layer()
    filled(engine, module)
    builder = engine.builder()
    for queries in (2, 7, 3, 40, 39):
        batch = dict(queries=[queries], keys=[queries + 3], tables=[[5, 9, 2]])
        q, out, _ = step(engine, module, builder, batch)
        check(engine, module, batch, q, out)
    assert list(builder.group.plans(module.impl.layer, True)._plans) == [("prefill", 0, 0)]


def test_plans_are_made_again_where_there_are_many(engine):
    from attn_rs_vllm.plans import MOST_PLANS, PREFILL

    module, builder = engine.layer(), engine.builder()
    plans = builder.group.plans(module.impl.layer, True)
    plans.of(PREFILL, 1).captured = True
    for rows in range(2, MOST_PLANS + 10):
        assert plans.of(PREFILL, rows) is plans.of(PREFILL, rows)
    assert len(plans._plans) == MOST_PLANS + 1 and (PREFILL, 1, 0) in plans._plans


def test_memory_is_measured_without_a_batch(engine):
    module = engine.layer()
    out = torch.full((3, 4 * engine.DIM), torch.nan, device=engine.device)
    assert not module.impl.forward(module, out, None, None, module.kv_cache, None, out).any()


def test_what_is_refused(engine):
    from attn_rs_vllm.backend import AttnRsBackend
    from attn_rs_vllm.errors import Refused

    with pytest.raises(Refused, match="encoder_only"):
        engine.layer(attn_type="encoder_only")
    with pytest.raises(Refused, match="no chunk_lookback of a layer"):
        engine.layer(chunk_lookback=3)
    module = engine.layer()
    common = engine.common(**RECORDED["decoding"], causal=torch.tensor([True, False, True]))
    with pytest.raises(Refused, match="all causal, or none"):
        engine.builder().build(0, common)
    with pytest.raises(Refused, match="fusion"):
        module.impl.forward(module, None, None, None, None, None, None, output_scale=1.0)
    with pytest.raises(Refused, match="there are auto, float16"):
        engine.layer(cache_dtype="turboquant_4bit")
    engine.config.additional_config = {"attn_rs": {"variant": "causal & softcap(30)"}}
    batch = RECORDED["decoding"]
    with pytest.raises(attn_rs.InvalidVariant, match="column 8"):
        step(engine, engine.layer(), engine.builder(), batch)
    engine.config.additional_config = {"attn_rs": {"kv_format": "int3"}}
    with pytest.raises(Refused, match="`int3` is not one"):
        step(engine, engine.layer(), engine.builder(), batch)
    reason = AttnRsBackend.supports_combination(128, torch.bfloat16, "auto", 16, False, False, False, False, None)
    assert reason is None
    assert "int5" in AttnRsBackend.supports_combination(128, torch.bfloat16, "int5", 16, False)
    assert "0" in AttnRsBackend.supports_combination(0, torch.bfloat16, "auto", 16, False)
