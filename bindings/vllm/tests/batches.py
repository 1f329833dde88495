"""Batches as an engine has them: queries and keys of requests, pages of their block tables, and padding."""

RECORDED = {
    "a prompt": dict(queries=[37], keys=[37], tables=[[5, 9, 2]]),
    "a later part of a prompt": dict(queries=[20], keys=[57], tables=[[5, 9, 2, 30]]),
    "decoding": dict(queries=[1, 1, 1], keys=[40, 3, 17], tables=[[1, 2, 3], [4], [7, 6]]),
    "decoding in a larger graph": dict(
        queries=[1, 1, 1], keys=[40, 3, 17], tables=[[1, 2, 3], [4], [7, 6]], padded_requests=1, padded_tokens=1
    ),
    "decoding beside prompts": dict(
        queries=[1, 1, 30, 9], keys=[33, 100, 30, 25], tables=[[8, 9, 1], list(range(20, 27)), [40, 41], [50, 51]]
    ),
    "beside prompts in a larger graph": dict(
        queries=[1, 30], keys=[33, 30], tables=[[8, 9, 1], [40, 41]], padded_tokens=9
    ),
    "a prefix of two pages that all share": dict(
        queries=[1, 1, 1], keys=[40, 37, 48], tables=[[1, 2, 3], [1, 2, 5], [1, 2, 9]]
    ),
}
