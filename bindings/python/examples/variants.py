"""A picture of variants: what each query of 64 tokens sees, and how much.

    python bindings/python/examples/variants.py variants.png

Values that are the rows of the identity make the output of attention its weights: row i of the output is the row of
weights of query i. So every variant draws itself, with the kernel that computes it. It needs numpy alone.
"""

# %% Queries and keys: a smooth random text, so that near tokens are alike
import struct
import sys
import zlib

import numpy as np

import attn_rs

TOKENS, DIM = 64, 64
rng = np.random.default_rng(7)
text = np.cumsum(rng.standard_normal((TOKENS, DIM)), axis=0)
text = (text / np.linalg.norm(text, axis=1, keepdims=True) * 6).astype("float32")
q = k = text[None, :, None]  # (batch, tokens, heads, head dim)
v = np.eye(TOKENS, dtype="float32")[None, :, None]

# %% Variants, by name. Each is one of `attn_rs.variants()`, or several of them, composed
VARIANTS = [
    "full",
    "causal",
    "causal + sliding_window(window=12)",
    "causal + soft_cap(cap=2)",
    "causal + alibi(slopes=[0.3])",
    "causal + streaming(sink=3, window=8)",
    "prefix_lm(prefix=[20])",
    "causal + dilated_window(window=8, dilation=3)",
]


def weights(variant):
    """The weights of a variant, (queries, keys)."""
    return attn_rs.attention(q, k, v, variant)[0, :, 0]


# %% Checks: rows of a softmax sum to 1, and what a mask hides weighs nothing
for variant in VARIANTS:
    drawn = weights(variant)
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, atol=1e-5, err_msg=variant)
    if "causal" in variant:
        assert not np.triu(drawn, 1).any(), variant


# %% The picture: four variants a row, darker for more weight
def picture():
    scale, gap = 3, 8
    tile = TOKENS * scale
    rows = -(-len(VARIANTS) // 4)
    canvas = np.full((rows * (tile + gap) + gap, 4 * (tile + gap) + gap), 255, dtype=np.uint8)
    for i, variant in enumerate(VARIANTS):
        top, left = (gap + at * (tile + gap) for at in divmod(i, 4))
        shade = 235 * (1 - np.sqrt(weights(variant) / weights(variant).max(axis=1, keepdims=True)))
        canvas[top : top + tile, left : left + tile] = np.repeat(np.repeat(shade.astype(np.uint8), scale, 0), scale, 1)
    return canvas


def png(canvas):
    """A grey picture as the bytes of a PNG."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = canvas.shape
    lines = b"".join(b"\0" + line.tobytes() for line in canvas)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    to = sys.argv[1] if len(sys.argv) > 1 else "variants.png"
    with open(to, "wb") as file:
        file.write(png(picture()))
    print(f"{to}: {', '.join(VARIANTS)}")
