// Runs a kernel that verifies drafts on a grid.
EXPORT void verify(VERIFY_PARAMS* p, int requests, unsigned bytes, unsigned seed) {
  auto thread = [](void* argument) { VERIFY_KERNEL(*static_cast<const VERIFY_PARAMS*>(argument)); };
  run_grid("verification", VERIFY_THREADS, bytes, requests, 1, seed, thread, p);
}
