// Runs the sampling kernel on a grid. The kernel depends on whether all tokens of a row are in shared memory.
EXPORT void sample(SampleParams* p, int rows, unsigned bytes, unsigned seed) {
  auto resident = [](void* argument) { attn_sample_many(*static_cast<const SampleParams*>(argument)); };
  auto large = [](void* argument) { attn_sample_large(*static_cast<const SampleParams*>(argument)); };
  if (p->resident == p->slice)
    run_grid("attn_sample_many", SAMPLE_MANY, bytes, rows, 1, seed, resident, p);
  else
    run_grid("attn_sample_large", SAMPLE_LARGE, bytes, rows, 1, seed, large, p);
}
