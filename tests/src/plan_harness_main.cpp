
struct Launch {
  const PlanParams* p;
  const Variant* variant;
  int part, parts;
  void* shared;
};

// What attn_plan does, with so many threads a CTA, one CTA after the other.
extern "C" void plan(const PlanParams* p, const Variant* variant, int parts, unsigned seed, int threads) {
  blockDim.x = threads;
  for (int part = 0; part <= parts; ++part) {
    PlanThreads::Shared shared;
    Launch all = {p, variant, part, parts, &shared};
    auto thread = [](void* of) {
      const Launch& launch = *static_cast<Launch*>(of);
      PlanThreads cta(*static_cast<PlanThreads::Shared*>(launch.shared));
      if (launch.part < launch.parts) return copy_pages(cta, *launch.p, launch.part, launch.parts);
      plan_batch(cta, *launch.p, *launch.variant, launch.parts, launch.p->scratch);
    };
    std::make_unique<Fibers>(threads, seed + part, thread, &all);
  }
}
