// Index words: where a hook stands, and what it is told. See attn-core/src/lang/{index,tile,row}.rs.
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
  int kv_slot = 0;  // under a list of keys: which of its blocks the key is of

#ifdef ATTN_HOST
  ATTN_FN KeyDistance kv_pos_minus(int a) const { return {float(kv_pos - a), 0.f}; }
#else
  int kv_step = 0;  // what of kv_pos is a constant

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

// Bounds are inclusive.
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

// What is known of a bool over a whole tile.
enum class Tri : int { False, Unknown, True };

// In this order the class under two masks is the smaller one.
enum class TileClass : int { Skip, Partial, Full };

struct RowState {
  float row_max;
  float denominator;
  float lse;
};
