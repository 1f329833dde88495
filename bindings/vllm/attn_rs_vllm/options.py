"""Options: `additional_config={"attn_rs": {"variant": ..}}` of vLLM, or environment variables: `ATTN_RS_VARIANT`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from .errors import Refused

PREFIX = "ATTN_RS_"
_CHOICES = {
    "cascade": ("off", "on", "always"),
    "mixed": ("together", "apart"),
}


@dataclass(frozen=True)
class Options:
    #: expression in place of that of the model's layers, in which `{model}` stands for theirs
    variant: str = "{model}"
    #: the same of layers without a window, and of those with one
    variant_full: str = ""
    variant_window: str = ""
    #: file of Rust text that registers variants of one's own
    variant_file: str = ""
    #: KV format of keys and values, such as `int8 / int4(group=32)`
    kv_format: str = ""
    #: whether pages that neighbouring requests share are looked for, and read once: where it saves time, or always
    cascade: str = "on"
    #: whether decoding requests beside prompts run in the launch of the prompts, or in one of their own
    mixed: str = "together"
    #: in batch-invariant mode, keys of a part of a decoding request, which then has a kernel of its own; by default all
    #: requests run in one kernel, unsplit
    split_size: int = 0

    def expression(self, of_model: str, has_window: bool) -> str:
        """The variant of a layer whose model asks for `of_model`."""
        of_kind = self.variant_window if has_window else self.variant_full
        return (of_kind or self.variant).replace("{model}", of_model)


def load(given: Mapping | None, environment: Mapping[str, str]) -> Options:
    """The options that are given, then those of the environment."""
    given = dict(given or {})
    read = {}
    for field in fields(Options):
        value = given.pop(field.name, environment.get(PREFIX + field.name.upper()))
        if value is None:
            continue
        if field.type in (int, "int"):
            try:
                value = int(value)
            except ValueError:
                raise Refused(f"option {field.name} of attn_rs is {value!r}; it is a whole number") from None
        choices = _CHOICES.get(field.name)
        if choices and value not in choices:
            raise Refused(f"option {field.name} of attn_rs is {value!r}; there are {', '.join(choices)}")
        read[field.name] = value
    known = [field.name for field in fields(Options)]
    unknown = [name for name in environment if name.startswith(PREFIX) and name[len(PREFIX) :].lower() not in known]
    if given or unknown:
        raise Refused(f"attn_rs has no option {', '.join([*given, *unknown])}; there are {', '.join(known)}")
    return Options(**read)


def of_config(vllm_config) -> Options:
    """The options of an engine; Rust text is registered once."""
    additional = getattr(vllm_config, "additional_config", None)
    given = additional.get("attn_rs") if isinstance(additional, Mapping) else None
    options = load(given, os.environ)
    if options.variant_file:
        _register(options.variant_file)
    return options


@lru_cache
def _register(path):
    import attn_rs

    with open(path) as file:
        attn_rs.variant(file.read(), path)
