// The coordinates that hooks receive (request, row, position, token, head), their bounds over a tile, and the row
// state. They mirror attn-core/src/lang/{index,tile,row}.rs.
#pragma once

#include "lang/factors.cuh"

struct RowIndex {
  int batch;
  int qo_row;
  int qo_pos;
  int qo_token;
  int qo_head;
  int kv_head;
  int qo_len;
  int kv_len;
};

struct LogitIndex : RowIndex {
  int kv_pos;
  int kv_token;
  int kv_slot = 0;  // with a list of keys: index in the list of the key's block

#ifdef ATTN_HOST
  ATTN_FN KeyDistance kv_pos_minus(int a) const { return {float(kv_pos - a), 0.f}; }
#else
  int kv_step = 0;  // the part of kv_pos that is a compile-time constant

  ATTN_FN KeyDistance kv_pos_minus(int a) const { return {float(kv_pos - kv_step - a), float(kv_step)}; }
#endif
};

struct KvIndex {
  int batch;
  int kv_pos;
  int kv_token;
  int kv_head;
  int kv_len;
};

// The bounds, inclusive, of the coordinates of a tile of query rows.
struct QueryTile {
  int batch;
  int qo_row_min, qo_row_max;
  int qo_pos_min, qo_pos_max;
  int qo_token_min, qo_token_max;
  int qo_head_min, qo_head_max;
  int kv_head_min, kv_head_max;
  int qo_len;
  int kv_len;
};

struct Tile : QueryTile {
  int kv_pos_min, kv_pos_max;
  int kv_token_min, kv_token_max;
};

// The tile of these rows and the keys from `first` to `last`. `token`: the token of position 0.
ATTN_FN Tile make_tile(const QueryTile& rows, int token, int first, int last) {
  return {rows, first, last, token + first, token + last};
}

// A three-valued bool: what is known of a condition over a whole tile.
enum class Tristate : int { False, Unknown, True };

// Ordered so that the class under the conjunction of two masks is the smaller one.
enum class TileClass : int { Skip, Partial, Full };

struct RowState {
  float row_max;
  float denominator;
  float lse;
};
