"""Keys that requests share: found in the block table on the device, as levels of a cascade.

Every tensor has one shape, whatever is shared, so that a CUDA graph can capture this: each replay finds what is shared
then."""

import torch

import attn_rs

#: keys that a level has at least: fewer cost more in merges than they save
LEAST_KEYS = 256
#: the levels: what all requests share, what neighbours share beyond, and each request's own keys
LEVELS = 3
# more pages than a request has
_MANY = 1 << 30


def levels(starts, table, lens, page: int, least: int = 1, qo_tokens: int | None = None):
    """The batch with what requests share. `starts` is (requests + 1), prefix sums of queries; `table` is (requests,
    pages); `lens` is (requests), keys. A level that has less than `least` pages is left out: it has no keys."""
    requests, width = table.shape
    shared = _shared_pages(starts, table, lens, page)
    of_all = shared.amin()
    # with one request that has queries there is none that shares
    of_all = torch.where((of_all >= least) & (of_all < _MANY), of_all, 0)
    beyond = torch.where(shared < _MANY, shared - of_all, 0)
    begins = torch.ones(requests, dtype=torch.bool, device=table.device)
    begins[1:] = beyond < least
    group = begins.cumsum(0) - 1
    # groups come first, then as many without queries as there are requests left
    row = torch.where(begins, group, requests)
    ends = starts[-1:].repeat(requests + 1).scatter_(0, row, torch.where(begins, starts[:-1], starts[-1]))
    pages = torch.full_like(lens, _MANY)
    pages[1:] = torch.where(begins[1:], _MANY, beyond)
    of_group = torch.full_like(lens, _MANY).scatter_reduce_(0, group, pages, "amin")
    of_group = torch.where(of_group < _MANY, of_group, 0)
    first = group.new_zeros(requests + 1).scatter_(0, row, torch.arange(requests, device=table.device))[:-1]
    before = of_all + of_group[group]
    table_of = attn_rs.DeviceBatch.block_table
    return attn_rs.DeviceBatch.cascade([
        table_of(starts[::requests].contiguous(), table[:1], (of_all * page).int()[None]),
        table_of(ends.int(), _from(table[first], of_all.expand(requests)), (of_group * page).int()),
        # rows of padding have no keys
        table_of(starts, _from(table, before), (lens - before * page).clamp_(min=0).int(), qo_tokens=qo_tokens),
    ])  # fmt: skip


def _shared_pages(starts, table, lens, page):
    """Full leading pages that each request but the first has in common with the one before it, before the queries of
    both: none with one that has no queries, and many if it has none itself, as a row of padding."""
    queries = starts[1:] - starts[:-1]
    own = (lens - queries).clamp_(min=0) // page
    column = torch.arange(table.shape[1], device=table.device, dtype=torch.int32)
    same = (table[1:] == table[:-1]) & (column < torch.minimum(own[1:], own[:-1])[:, None])
    leading = torch.where(same, table.shape[1], column).amin(1)
    return torch.where(queries[1:] > 0, torch.where(queries[:-1] > 0, leading, 0), _MANY)


def _from(table, first):
    """The rows of a block table from a page of each on."""
    column = torch.arange(table.shape[1], device=table.device)
    return table.gather(1, (column + first[:, None]).clamp_(max=table.shape[1] - 1))
