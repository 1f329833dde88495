"""What vLLM finds."""

import pytest

pytest.importorskip("torch")

import stub  # noqa: E402


def test_the_backend_is_registered_by_its_path():
    with stub.installed("0.26.0") as registered:
        import attn_rs_vllm

        attn_rs_vllm.register()
        assert registered == {"CUSTOM": attn_rs_vllm.BACKEND}
        from attn_rs_vllm.backend import AttnRsBackend

        assert not hasattr(AttnRsBackend, "supported_kv_cache_layouts")
        assert AttnRsBackend.get_builder_cls().supports_update_block_table


def test_an_unknown_version_is_refused_where_the_backend_is_chosen():
    with stub.installed("0.30.0") as registered:
        import attn_rs_vllm

        attn_rs_vllm.register()
        assert registered
        from attn_rs_vllm.errors import Refused

        with pytest.raises(Refused, match=r"vLLM 0\.30\.0 is not known"):
            import attn_rs_vllm.backend  # noqa: F401


def test_batch_invariance(monkeypatch):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    with stub.installed("0.26.0"):
        engine = stub.Engine()
        engine.layer()
        for split_size, support in [(0, "ALWAYS"), (512, "UNIFORM_SINGLE_TOKEN_DECODE")]:
            engine.config.additional_config = {"attn_rs": {"split_size": split_size}}
            builder = engine.builder()
            assert builder.group.limits.split_sizes == (("decode", split_size or 1024), ("prefill", 2**29))
            assert builder.get_cudagraph_support(engine.config, builder.kv_cache_spec).name == support


def test_which_steps_are_one_graph():
    with stub.installed("0.26.0"):
        engine = stub.Engine()
        engine.layer()

        def support():
            builder = engine.builder()
            return builder.get_cudagraph_support(engine.config, builder.kv_cache_spec).name

        for options, want in [({}, "ALWAYS"), ({"mixed": "apart"}, "UNIFORM_BATCH"), ({"cascade": "on"}, "ALWAYS")]:
            engine.config.additional_config = {"attn_rs": options}
            assert support() == want
        engine.layer(cache_dtype="fp8")
        engine.config.additional_config = {}
        assert support() == "UNIFORM_BATCH"
