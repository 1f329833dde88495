"""`flashinfer.pod`."""

from .decode import BatchPODWithPagedKVCacheWrapper as _Batch, PODWithPagedKVCacheWrapper as PODWithPagedKVCacheWrapper

BatchPODWithPagedKVCacheWrapper = _Batch
