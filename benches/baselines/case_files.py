"""Reads case files. A field that is there twice is an error: `json` would keep the last one."""

import json


def once(pairs):
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate field `{next(name for name in names if names.count(name) > 1)}`")
    return fields


def read(path):
    """The cases of a file: one a line, empty lines aside."""
    with open(path, encoding="utf-8-sig") as file:
        for at, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield json.loads(line, object_pairs_hook=once)
                except ValueError as error:
                    raise SystemExit(f"{path}: line {at} is not a case: {error}") from None
