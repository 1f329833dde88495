"""The page of the book with what `sweep.py` found.

python sweep_page.py sweep.jsonl book/src/reference/transformers.md
"""

import json
import sys
from pathlib import Path

KINDS = ("causal", "masked", "seq2seq", "encoder")
PAGE = """# Models of Transformers

What [`attn_implementation="attn_rs"`](../guide/python.md#transformers) does for every text model that Transformers
{transformers} has, on {date} with torch {torch}, in float32 on {device}. `bindings/python/tests/sweep.py` found the
results, and `sweep_page.py` wrote this page.

Each family of Transformers' tables of auto classes (causal, masked and encoder-decoder language models, text encoders)
is a tiny model of its own class with random weights, whose windows and chunks are shorter than its 24 tokens. It
computes with Transformers' `eager` attention and with ours: without padding, with padding on the left and on the right,
with a cache in steps of one and of several tokens, and what it generates. **right** means that all of these differ by
less than 1e-5 of the largest logit, and that the generated tokens are equal. **refused** is an error when the model is
loaded, which names why.

{counts}

{rows}

{notes}"""
NOTES = """- *computes attention itself*, *has a table of its own*: the model does not ask for an attention by name.
- *passes `position_bias`*, *`indices`*, *`block_indices`*: a keyword that changes the attention and is not read.
- **no attention**: right, but none of its layers asks for an attention by name, or for a mask.
- **not built**: no tiny model of the family computes with `eager` from tokens alone.
"""


def words(line):
    """A cell of the table."""
    if line["result"] == "right":
        return "right" if line["calls"] else "no attention"
    why = line["why"].partition(" by name: ")[2].partition("; load the model")[0] or line["why"]
    who, _, rest = why.partition(" ")
    short = {
        "computes attention itself": "computes attention itself",
        "file of": "has a table of its own",
        "passes": rest.partition(",")[0],
    }
    why = next((to for of, to in short.items() if rest.startswith(of)), why if line["result"] == "not built" else rest)
    why = why.partition(", which eager alone")[0]
    return f"{line['result']}: {why.replace('|', ' ')[:120]}"


def page(lines):
    about = lines[0]
    lines = lines[1:]
    results = {}
    for line in lines:
        results.setdefault(line["family"], {})[line["kind"]] = words(line)
    rows = ["| family | causal | masked | encoder-decoder | encoder |", "|---|---|---|---|---|"]
    for family, cells in sorted(results.items()):
        rows.append(f"| `{family}` | " + " | ".join(cells.get(kind, "") for kind in KINDS) + " |")
    counts = {}
    for line in lines:
        counts[line["result"]] = counts.get(line["result"], 0) + 1
    said = ", ".join(f"{count} are {result}" for result, count in sorted(counts.items(), key=lambda of: -of[1]))
    counts = f"Of {len(lines)} models {said}; {counts.get('wrong', 0)} are silently wrong."
    return PAGE.format(**about, counts=counts, rows="\n".join(rows), notes=NOTES)


def main():
    found, to = sys.argv[1:]
    lines = [json.loads(line) for line in Path(found).read_text().splitlines()]
    Path(to).write_text(page(lines))


if __name__ == "__main__":
    main()
