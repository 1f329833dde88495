import os
from collections.abc import Sequence
from typing import Any, TypedDict

__version__: str

class _Param(TypedDict):
    name: str
    type: str
    shape: str
    doc: str
    default: str | None

class _Variant(TypedDict):
    name: str
    doc: str
    params: list[_Param]

class Batch:
    @staticmethod
    def ragged(qo_indptr: Any, kv_indptr: Any) -> Batch: ...
    @staticmethod
    def paged(
        qo_indptr: Any, page_indptr: Any, page_indices: Any, last_page_len: Any, *, page_size: int, num_pages: int
    ) -> Batch: ...
    @staticmethod
    def block_table(qo_indptr: Any, block_table: Any, kv_lens: Any, *, page_size: int, num_pages: int) -> Batch: ...
    @staticmethod
    def cascade(qo_indptr: Any, levels: Sequence[Batch]) -> Batch: ...

class Capacity:
    def __init__(
        self,
        requests: int,
        kv_tokens: int,
        *,
        qo_tokens: int | None = None,
        page_size: int | None = None,
        num_pages: int | None = None,
        qo_len: int | None = None,
        levels: int | None = None,
        kv_memory_tokens: int | None = None,
    ) -> None: ...

class DeviceBatch:
    @staticmethod
    def ragged(qo_indptr: Any, kv_lens: Any) -> DeviceBatch: ...
    @staticmethod
    def paged(qo_indptr: Any, kv_lens: Any, page_indptr: Any, page_indices: Any) -> DeviceBatch: ...
    @staticmethod
    def block_table(qo_indptr: Any, block_table: Any, kv_lens: Any) -> DeviceBatch: ...

class Attention:
    def __init__(
        self,
        variant: str,
        params: dict[str, Any] | None,
        device: str,
        qo_heads: int,
        kv_heads: int,
        head_dim: int,
        value_dim: int | None,
        qo_dtype: str,
        kv_dtype: str,
        *,
        scale: float | None = None,
        kernel: str | None = None,
        fixed_split_size: int | None = None,
        stores_transformed: bool = False,
        values_in_keys: bool = False,
        mask: tuple[Any, Any] | None = None,
        kv_format: str | None = None,
        compute_type: str = "exact",
    ) -> None: ...
    def with_parameters(
        self, variant: str, params: dict[str, Any] | None = None, scale: float | None = None
    ) -> Attention: ...
    def set_tensor(self, name: str, values: Any, stream: int | None = None) -> None: ...
    def set_tensor_rows(self, name: str, indices: Any, values: Any, stream: int | None = None) -> None: ...
    @property
    def variant(self) -> str: ...
    @property
    def heads(self) -> tuple[int, int, int, int]: ...
    @property
    def device(self) -> str: ...

class Plan:
    def __init__(
        self,
        attention: Attention,
        batch: Batch,
        kv_layout: str,
        capacity: Capacity | None = None,
        layers: list[Attention] = ...,
        reuse: Plan | None = None,
        stream: int | None = None,
    ) -> None: ...
    def update(self, batch: Batch, stream: int | None = None) -> None: ...
    def update_on_device(self, batch: DeviceBatch, stream: int | None = None) -> None: ...
    def prepare_device_updates(self) -> None: ...
    def device_status(self, stream: int | None = None) -> None: ...
    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        o: Any,
        lse: Any = None,
        layer: Attention | None = None,
        partial: bool = False,
        k_scale: Any = 1.0,
        v_scale: Any = 1.0,
        stream: int | None = None,
        k_side: Any = None,
        v_side: Any = None,
        lse_base_2: bool = False,
    ) -> None: ...
    def time_runs(self, q: Any, k: Any, v: Any, o: Any, count: int) -> list[int]: ...
    @property
    def qo_tokens(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    def release_captured(self) -> None: ...
    @property
    def has_capacity(self) -> bool: ...
    @property
    def has_values(self) -> bool: ...

def append(
    k: Any,
    v: Any,
    k_pool: Any,
    v_pool: Any,
    slots: Any = None,
    *,
    kv_layout: str = "NHD",
    positions: Any = None,
    attention: Attention | None = None,
    k_scale: Any = 1.0,
    v_scale: Any = 1.0,
    stream: int | None = None,
    k_side: Any = None,
    v_side: Any = None,
    batch_indices: Any = None,
    page_indptr: Any = None,
    page_indices: Any = None,
    block_table: Any = None,
    status: Any = None,
) -> None: ...
def check(expression: str, params: dict[str, Any] | None = None) -> str: ...
def describe(device: str) -> str: ...
def load_costs(path: str | os.PathLike[str], device: str) -> None: ...
def release_captured(device: str) -> None: ...
def sparse_block_map(requests: Sequence[Any], block: Sequence[int]) -> tuple[str, dict[str, Any]]: ...
def sparse_bsr(
    requests: Sequence[Sequence[tuple[Any, Any, Any]]], block: Sequence[int], columns: Sequence[int]
) -> tuple[str, dict[str, Any]]: ...
def sparse_page_list(
    lists: Sequence[Sequence[Sequence[int]]], page_size: int, max_pages: int
) -> tuple[str, dict[str, Any]]: ...
def sparse_variable_blocks(
    attends: Any, row_sizes: Any, column_sizes: Any, block: Sequence[int] | None = None
) -> tuple[str, dict[str, Any]]: ...
def variant(rust: str, file: str = "variant.rs") -> list[str]: ...
def variants() -> list[_Variant]: ...
