"""Costs that a user measured are read, and a file of others is an exception."""

import numpy as np
import pytest

import attn_rs

ABOUT = '{"about": {"arch": "sm_120", "device": "a GPU"}}'
ROW = (
    '{"kernel": "decode", "rows": 8, "kv": "16-bit", "head_dim": 128, "hooks": "none", "ctas_per_sm": 2, '
    '"launch": 5000, "item": 900, "block": 2100, "first": 0, "merge_launch": 900, "merge": 140}'
)


@pytest.fixture(name="load")
def a_load(tmp_path):
    def load(text, device="cpu"):
        path = tmp_path / "costs.jsonl"
        path.write_text(text)
        attn_rs.load_costs(path, device)

    return load


def test_costs_are_loaded_and_attention_goes_on(load):
    q, k = np.ones((1, 3, 4, 8), dtype=np.float32), np.ones((1, 9, 2, 8), dtype=np.float32)
    before = attn_rs.attention(q, k, k, "causal")
    load(f"{ABOUT}\n{ROW}\n")
    assert (attn_rs.attention(q, k, k, "causal") == before).all()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there are no costs"),
        (ROW, "line 1: `arch` is missing"),
        (f"{ABOUT}\n{ROW}\n{ROW}", "line 3: line 2 has costs of the same kernel"),
        (f"{ABOUT}\n{ROW.replace('decode', 'mixed')}", "`kernel` is mixed; possible is decode, prefill"),
        (f"{ABOUT}\n{ROW.replace('900', '-1')}", "line 2: invalid value: integer `-1`"),
        ("garbage", "line 1: expected value at column 1"),
    ],
)
def test_other_files_are_refused(load, text, why):
    with pytest.raises(attn_rs.InvalidArgument, match=why):
        load(text)


def test_what_is_not_there_is_refused(tmp_path, load):
    with pytest.raises(attn_rs.InvalidArgument, match="attn calibrate"):
        attn_rs.load_costs(tmp_path / "none.jsonl", "cpu")
    with pytest.raises(attn_rs.InvalidArgument, match="the device is `tpu`"):
        load(f"{ABOUT}\n{ROW}", "tpu")
