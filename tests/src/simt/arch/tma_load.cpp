// TMA: tensor maps as the harness encodes them, and boxes between global and shared memory.
struct EmulatedMap {
  unsigned char* data;
  unsigned long long sizes[4], strides[3];  // in elements; in bytes
  unsigned long long box[2];                // of dimensions 1 and 2; a box has 64 elements of dimension 0
};
static_assert(sizeof(EmulatedMap) <= sizeof(TensorMap), "it fits");
inline EmulatedMap emulated(const TensorMap& map) {
  EmulatedMap of;
  std::memcpy(&of, &map, sizeof of);
  return of;
}

// Copies a box at these coordinates. In shared memory a row has 128 bytes, and bits 4 to 6 of an address are swizzled
// by bits 7 to 9. Elements outside of the tensor are loaded as 0, and not stored.
inline void move_box(const EmulatedMap& map, unsigned shared, const int (&at)[4], bool load) {
  unsigned row = 0;
  for (unsigned i2 = 0; i2 < map.box[1]; ++i2)
    for (unsigned i1 = 0; i1 < map.box[0]; ++i1, ++row)
      for (unsigned i0 = 0; i0 < 64; ++i0) {
        const int index[4] = {at[0] + static_cast<int>(i0), at[1] + static_cast<int>(i1), at[2] + static_cast<int>(i2),
                              at[3]};
        bool inside = true;
        for (int d = 0; d < 4; ++d) inside &= index[d] >= 0 && static_cast<unsigned long long>(index[d]) < map.sizes[d];
        unsigned linear = shared + 128 * row + 2 * i0;
        unsigned char* memory = at_shared(linear ^ (linear >> 7 & 7) << 4, 2, "cp.async.bulk.tensor");
        long long offset = 2ll * index[0];
        for (int d = 1; d < 4; ++d) offset += index[d] * static_cast<long long>(map.strides[d - 1]);
        if (load && !inside)
          std::memset(memory, 0, 2);
        else if (load)
          std::memcpy(memory, map.data + offset, 2);
        else if (inside)
          std::memcpy(map.data + offset, memory, 2);
      }
}

// The box arrives at a random time. Until then its memory is poisoned.
inline void tma_load(unsigned shared, const TensorMap& map, unsigned barrier, int column, KvLocation location,
                     int head) {
  EmulatedMap of = emulated(map);
  unsigned bytes = static_cast<unsigned>(128 * of.box[0] * of.box[1]);
  if (bytes == 0) fail("a tensor map that was not encoded:", "cp.async.bulk.tensor");
  async_proxy_writes(shared, bytes, "cp.async.bulk.tensor");
  std::memset(at_shared(shared, 128, "cp.async.bulk.tensor"), 0xff, bytes);
  Fibers::running->later([=] {
    move_box(of, shared, {column, location.slot, head, location.page}, true);
    mbarrier_complete_tx(barrier, bytes);
  });
}
