// C interface to the hooks of a variant, for the host differential test. Rows behave as on the CPU backend.

template <class T>
int element_of(lang::ElementRow<T> row, int i, float* element) {
  *element = lang::read_element(row.data, lang::clamp_index(i, row.extent));
  return 1;
}
int element_of(float, int, float*) { return 0; }

struct HostRow {
  float* x;
  int n;
  int dim() const { return n; }
  template <class F>
  void map(F f) {
    for (int d = 0; d < n; ++d) x[d] = f(d, x[d]);
  }
  void rotate(int i, int j, Pair cos_sin) {
    const float a = x[i], b = x[j];
    x[i] = a * cos_sin.x - b * cos_sin.y;
    x[j] = b * cos_sin.x + a * cos_sin.y;
  }
  template <class F>
  void rotate_half(int rot, F f) {
    for (int d = 0; d < rot / 2; ++d) rotate(d, d + rot / 2, f(d));
  }
  template <class F>
  void rotate_pairs(int rot, F f) {
    for (int i = 0; i < rot / 2; ++i) rotate(2 * i, 2 * i + 1, f(i));
  }
  template <class T, class F>
  void zip(T t, F f) {
    for (int d = 0; d < n; ++d) x[d] = f(d, x[d], t(d));
  }
  template <class F>
  float dot(F f) const {
    double total = 0;
    for (int d = 0; d < n; ++d) total += double(x[d]) * f(d);
    return float(total);
  }
  float sum() const {
    double total = 0;
    for (int d = 0; d < n; ++d) total += x[d];
    return float(total);
  }
  float sum_sq() const {
    double total = 0;
    for (int d = 0; d < n; ++d) total += double(x[d]) * x[d];
    return float(total);
  }
  float max_abs() const {
    float most = 0;
    for (int d = 0; d < n; ++d) most = lang::max(most, lang::abs(x[d]));
    return most;
  }
};

// lang/hadamard.cuh has those of kernels
inline void hadamard(HostRow& row, bool selected = true) {
  if (!selected) return;
  for (int stride = 1; stride < row.n; stride *= 2)
    for (int d = 0; d < row.n; ++d) {
      if (d & stride) continue;
      const float a = row.x[d], b = row.x[d + stride];
      row.x[d] = a + b, row.x[d + stride] = a - b;
    }
  const float scale = 1.f / lang::sqrt(float(row.n));
  for (int d = 0; d < row.n; ++d) row.x[d] *= scale;
}

extern "C" {
void query(const Variant* v, float* q, int n, const RowIndex* at) {
  HostRow row{q, n};
  v->query_transform(row, *at);
}
void key(const Variant* v, float* k, int n, const KvIndex* at) {
  HostRow row{k, n};
  v->key_transform(row, *at);
}
void value(const Variant* v, float* x, int n, const KvIndex* at) {
  HostRow row{x, n};
  v->value_transform(row, *at);
}
void output(const Variant* v, float* o, int n, const RowState* state, const RowIndex* at) {
  HostRow row{o, n};
  v->output_transform(row, *state, *at);
}
float logits_transform(const Variant* v, float logit, const LogitIndex* at) { return v->logits_transform(logit, *at); }
float logits_bias(const Variant* v, const LogitIndex* at) { return float(v->logits_bias(*at)); }
int logits_slope(const Variant* v, const LogitIndex* at, float* slope) {
  *slope = v->logits_slope(*at);
  return Variant::HAS_LOGITS_SLOPE;
}
// Returns whether the variant has bias rows.
int logits_bias_row(const Variant* v, const LogitIndex* at, float* element) {
  return element_of(v->logits_bias_row(*at), at->kv_pos, element);
}
int logits_bound(const Variant* v, float* bound) {
  *bound = v->logits_bound();
  return Variant::HAS_LOGITS_BOUND;
}
int logits_mask(const Variant* v, const LogitIndex* at) { return v->logits_mask(*at); }
float weight(const Variant* v, float logit, float row_max, const LogitIndex* at) {
  return v->weight(logit, row_max, *at);
}
float denominator(const Variant* v, float logit, float row_max, float weight, const LogitIndex* at) {
  return v->denominator(logit, row_max, weight, *at);
}
int kv_list_len(const Variant* v, const RowIndex* at) { return v->kv_list_len(*at); }
int kv_list_block(const Variant* v, const RowIndex* at, int n) { return v->kv_list_block(*at, n); }
float sink_logit(const Variant* v, const RowIndex* at) { return v->sink_logit(*at); }
int tile_class(const Variant* v, const Tile* tile) { return int(v->tile_class(*tile)); }
// Returns whether the variant has key bounds.
int kv_bounds(const Variant* v, const RowIndex* at, int* begin_end) {
  const Bounds keys = v->kv_bounds(*at);
  begin_end[0] = keys.begin;
  begin_end[1] = keys.end;
  return Variant::HAS_BOUNDS;
}
}
