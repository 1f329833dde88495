"""Keys that requests share: found in a block table, as levels of a cascade, and when they pay."""

import numpy as np

import attn_rs

#: bytes of keys and values that a GPU reads in a microsecond, and microseconds of a layer that a cascade costs where
#: the engine would else replay a graph of the whole step: four launches by the host
BYTES_PER_US = 3.0e6
LAUNCHES_US = 25.0
#: keys that a level has at least
LEAST_KEYS = 256
#: queries of a step with a cascade: its plan keeps a partial state of each row in every level
MOST_QUERIES = 2048


def saved_us(prefix: int, requests: int, bytes_per_key: int) -> float:
    """Microseconds of a layer that a shared prefix saves, if it is read once."""
    return (requests - 1) * prefix * bytes_per_key / BYTES_PER_US


def pays(prefix: int, query_lens, bytes_per_key: int) -> bool:
    requests = len(query_lens)
    return (
        int(np.sum(query_lens)) <= MOST_QUERIES and saved_us(prefix, requests, bytes_per_key) > LAUNCHES_US
    )


def shared_pages(table: np.ndarray, lens: np.ndarray, queries: np.ndarray, page: int) -> np.ndarray:
    """Full leading pages that each request has in common with the one before it, before the queries of both; 0 for the
    first. `table` is (requests, pages), `lens` and `queries` are keys and queries of each."""
    own = np.maximum(lens - queries, 0) // page
    shared = np.zeros(len(lens), dtype=np.int64)
    if len(lens) < 2:
        return shared
    width = min(table.shape[1], int(own.max()))
    same = table[1:, :width] == table[:-1, :width]
    leading = np.logical_and.accumulate(same, axis=1).sum(axis=1)
    shared[1:] = np.minimum(leading, np.minimum(own[1:], own[:-1]))
    return shared


def levels(table, lens, qo_indptr, page: int, num_pages: int, least: int = 1):
    """The cascade of a batch: what all share, then what neighbours share beyond, of at least `least` pages, then each
    request's own keys. None where no request shares any."""
    table, lens, qo_indptr = (np.asarray(x) for x in (table, lens, qo_indptr))
    requests = len(lens)
    shared = shared_pages(table, lens, np.diff(qo_indptr), page)
    of_all = int(shared[1:].min()) if requests > 1 else 0
    of_all = of_all if of_all >= least else 0
    # a group ends where neighbours share no more than all do
    begins = np.flatnonzero(np.r_[True, shared[1:] - of_all < least])
    ends = np.r_[begins[1:], requests]
    of_group = np.zeros(len(begins), dtype=np.int64)
    for group in np.flatnonzero(ends - begins > 1):
        of_group[group] = shared[begins[group] + 1 : ends[group]].min() - of_all
    if of_all == 0 and not of_group.any():
        return None
    pool = {"page_size": page, "num_pages": num_pages}
    found = []
    if of_all:
        found.append(_level([0, requests], np.array([of_all]), table[:1], 0, qo_indptr, [page], pool))
    if of_group.any():
        last = np.where(of_group > 0, page, 0)
        found.append(_level(np.r_[begins, requests], of_group, table[begins], of_all, qo_indptr, last, pool))
    before = of_all + np.repeat(of_group, ends - begins)
    left = lens - before * page
    pages = -(-left // page)
    last = np.where(pages > 0, left - (pages - 1) * page, 0)
    found.append(_level(np.arange(requests + 1), pages, table, before, qo_indptr, last, pool))
    return attn_rs.Batch.cascade(qo_indptr, found)


def _level(groups, counts, rows, first, qo_indptr, last, pool):
    """`counts` pages of each row from `first` on; `groups` are where groups of requests begin."""
    indptr = np.r_[0, np.cumsum(counts)]
    columns = np.arange(rows.shape[1])[None]
    first = np.broadcast_to(first, counts.shape)[:, None]
    taken = rows[(columns >= first) & (columns < first + counts[:, None])]
    as_ints = lambda x: np.ascontiguousarray(x, dtype=np.int32)  # noqa: E731
    return attn_rs.Batch.paged(
        as_ints(qo_indptr[groups]), as_ints(indptr), as_ints(taken), as_ints(last), **pool
    )
