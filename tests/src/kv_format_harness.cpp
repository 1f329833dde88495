// C interface to a KV format, `Format`, for the host differential test: rows as on the CPU backend.

struct HostRow {
  const float* x;
  int n;
  int dim() const { return n; }
  float max_abs(int first, int len) const {
    lang::u32 most = 0;
    for (int d = first; d < first + len; ++d) {
      const lang::u32 size = lang::to_bits(x[d]) & 0x7fffffffu;
      most = size > most ? size : most;
    }
    return lang::from_bits(most);
  }
  float max(int first, int len) const {
    float most = -lang::F32_INFINITY;
    for (int d = first; d < first + len; ++d) most = x[d] > most || x[d] != x[d] ? x[d] : most;
    return most + 0.f;
  }
  float min(int first, int len) const {
    float least = lang::F32_INFINITY;
    for (int d = first; d < first + len; ++d) least = x[d] < least || x[d] != x[d] ? x[d] : least;
    return least + 0.f;
  }
  template <class F>
  float sum(int first, int len, F of) const {
    float sums[1024];
    int n = 1;
    while (n < len) n *= 2;
    for (int i = 0; i < n; ++i) sums[i] = i < len ? of(first + i, x[first + i]) : 0.f;
    for (; n > 1; n /= 2)
      for (int i = 0; i < n / 2; ++i) sums[i] += sums[i + n / 2];
    return sums[0];
  }
  float sum_sq(int first, int len) const {
    return sum(first, len, [](int, float v) { return v * v; });
  }
};

struct HostBytes {
  unsigned char* p;
  lang::u32 u8_at(int i) const { return p[i]; }
  lang::u32 u16_at(int i) const { return u8_at(i) | u8_at(i + 1) << 8; }
  lang::u32 u32_at(int i) const { return u16_at(i) | u16_at(i + 2) << 16; }
  Array<lang::u32, 2> words2(int i) const { return {{u32_at(i), u32_at(i + 4)}}; }
  float f32_at(int i) const { return lang::from_bits(u32_at(i)); }
  float f16_at(int i) const { return lang::bits::f16_value(u16_at(i)); }
  float bf16_at(int i) const { return lang::bits::bf16_value(u16_at(i)); }
  float e4m3_at(int i) const { return lang::bits::e4m3_value(u8_at(i)); }
  Array<float, 8> scaled_e4m3(int i, float scale) const {
    Array<float, 8> x;
    for (int d = 0; d < 8; ++d) x.x[d] = e4m3_at(i + d) * scale;
    return x;
  }
  float e8m0_at(int i) const { return lang::bits::e8m0_value(u8_at(i)); }
  void set_u8(int i, lang::u32 x) { p[i] = (unsigned char)x; }
  void set_u16(int i, lang::u32 x) { set_u8(i, x), set_u8(i + 1, x >> 8); }
  void set_u32(int i, lang::u32 x) { set_u16(i, x), set_u16(i + 2, x >> 16); }
  void set_f32(int i, float x) { set_u32(i, x != x ? 0x7fc00000u : lang::to_bits(x)); }
  void set_f16(int i, float x) { set_u16(i, lang::bits::f16_bits(x)); }
  void set_bf16(int i, float x) { set_u16(i, lang::bits::bf16_bits(x)); }
  void set_e4m3(int i, float x) { set_u8(i, lang::bits::e4m3_bits(x)); }
  template <class F>
  void pack4(int at, const HostRow& x, int first, int len, const F& code) {
    for (int d = 0; d < len; d += 2) {
      const lang::u32 low = code(first + d, x.x[first + d]), high = code(first + d + 1, x.x[first + d + 1]);
      set_u8(at + d / 2, (low & 15) | (high & 15) << 4);
    }
  }
  template <class F>
  void pack8(int at, const HostRow& x, int first, int len, const F& code) {
    for (int d = 0; d < len; ++d) set_u8(at + d, code(first + d, x.x[first + d]));
  }
  template <class F>
  void pack16(int at, const HostRow& x, int first, int len, const F& code) {
    for (int d = 0; d < len; ++d) set_u16(at + 2 * d, code(first + d, x.x[first + d]));
  }
};

template <class Format>
void encode_row(const void* format, const float* x, int dim, unsigned char* codes, unsigned char* side, int kv_head) {
  HostBytes to_codes{codes}, to_side{side};
  static_cast<const Format*>(format)->encode(HostRow{x, dim}, to_codes, to_side, kv_head);
}

template <class Format>
void decode_row(const void* format, unsigned char* codes, unsigned char* side, int kv_head, float* x, int dim) {
  for (int d = 0; d < dim; d += 8) {
    const Array<float, 8> eight =
        static_cast<const Format*>(format)->decode(HostBytes{codes}, HostBytes{side}, kv_head, d);
    for (int i = 0; i < 8; ++i) x[d + i] = eight[i];
  }
}
