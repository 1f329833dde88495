// Instructions on matrices, which all lanes of a warp execute together: ldmatrix, stmatrix, movmatrix and mma.sync. The
// layouts of fragments are those of the PTX ISA: lane l holds row l / 4 and columns 2 * (l % 4) and the next.
template <class T>
inline T* of_lane(const unsigned long long* lanes, int lane) {
  return reinterpret_cast<T*>(lanes[lane]);
}

// The operands of a lane for ldmatrix and stmatrix.
struct MatrixLane {
  unsigned shared;
  unsigned* registers;
};
// Element (row, column) of an 8x8 matrix of 16-bit elements, of which lane `first` + i gives the address of row i.
inline unsigned char* matrix_element(const unsigned long long* lanes, int first, int row, int column,
                                     const char* instruction) {
  return at_shared(of_lane<MatrixLane>(lanes, first + row)->shared, 16, instruction) + 2 * column;
}
inline void load_matrices(unsigned* registers, int count, unsigned shared, bool transposed, const char* instruction) {
  MatrixLane mine = {shared, registers};
  Fibers::running->sync_warp(reinterpret_cast<uintptr_t>(&mine), instruction, [&](const unsigned long long* lanes) {
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < count; ++m) {
        unsigned short pair[2];
        for (int e = 0; e < 2; ++e) {
          int row = lane / 4, column = 2 * (lane % 4) + e;
          if (transposed) std::swap(row, column);
          std::memcpy(&pair[e], matrix_element(lanes, 8 * m, row, column, instruction), 2);
        }
        of_lane<MatrixLane>(lanes, lane)->registers[m] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
      }
  });
}
inline void ldmatrix_x4(unsigned (&r)[4], unsigned shared) { load_matrices(r, 4, shared, false, "ldmatrix.x4"); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared) {
  load_matrices(r, 4, shared, true, "ldmatrix.x4.trans");
}
inline void ldmatrix_x2(unsigned (&r)[2], unsigned shared) { load_matrices(r, 2, shared, false, "ldmatrix.x2"); }
inline void ldmatrix_x2_trans(unsigned (&r)[2], unsigned shared) {
  load_matrices(r, 2, shared, true, "ldmatrix.x2.trans");
}
inline void stmatrix_x4(unsigned shared, const unsigned (&x)[4]) {
  MatrixLane mine = {shared, const_cast<unsigned*>(x)};
  Fibers::running->sync_warp(reinterpret_cast<uintptr_t>(&mine), "stmatrix", [](const unsigned long long* lanes) {
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < 4; ++m)
        std::memcpy(matrix_element(lanes, 8 * m, lane / 4, 2 * (lane % 4), "stmatrix"),
                    &of_lane<MatrixLane>(lanes, lane)->registers[m], 4);
  });
}
inline unsigned movmatrix_trans(unsigned x) {
  const unsigned long long* lanes = Fibers::running->sync_warp(x, "movmatrix");
  int lane = threadIdx.x % 32, row = lane / 4, column = 2 * (lane % 4);
  auto element = [&](int row, int column) {
    return static_cast<unsigned>(lanes[4 * row + column / 2]) >> 16 * (column % 2) & 0xffff;
  };
  return element(column, row) | element(column + 1, row) << 16;
}

template <class E>
inline float float_of(unsigned bits);
template <>
inline float float_of<f16>(unsigned bits) {
  return float_of_f16(bits);
}
template <>
inline float float_of<e4m3>(unsigned bits) {
  return float_of_f16(f16_of_e4m3(bits));
}
template <>
inline float float_of<bf16>(unsigned bits) {
  return __uint_as_float(bits << 16);
}

// The operands of a lane for mma.sync.
struct MmaLane {
  float* c;
  const unsigned* a;
  unsigned b[2];
};
typedef float FourFloats __attribute__((vector_size(16)));
// c += a * b for a warp.
template <class E>
void mma_of_warp(const unsigned long long* lanes) {
  float a[16][16], c[16][8];
  alignas(16) float b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    MmaLane& of = *of_lane<MmaLane>(lanes, lane);
    int row = lane / 4, column = 2 * (lane % 4);
    for (int e = 0; e < 2; ++e) {
      for (int i = 0; i < 4; ++i) a[row + i % 2 * 8][column + i / 2 * 8 + e] = float_of<E>(of.a[i] >> 16 * e & 0xffff);
      for (int i = 0; i < 2; ++i) b[column + 8 * i + e][row] = float_of<E>(of.b[i] >> 16 * e & 0xffff);
      for (int i = 0; i < 2; ++i) c[row + 8 * i][column + e] = of.c[2 * i + e];
    }
  }
  for (int row = 0; row < 16; ++row) {
    FourFloats low = {}, high = {};
    for (int k = 0; k < 16; ++k) {
      FourFloats four = {a[row][k], a[row][k], a[row][k], a[row][k]};
      low += four * *reinterpret_cast<const FourFloats*>(b[k]);
      high += four * *reinterpret_cast<const FourFloats*>(b[k] + 4);
    }
    for (int i = 0; i < 4; ++i) c[row][i] += low[i], c[row][i + 4] += high[i];
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      of_lane<MmaLane>(lanes, lane)->c[i] = c[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}
template <class E>
void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  MmaLane mine = {c, a, {b0, b1}};
  Fibers::running->sync_warp(reinterpret_cast<uintptr_t>(&mine), "mma.sync", mma_of_warp<E>);
}
