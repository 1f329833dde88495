
struct Launch {
  const PlanParams* p;
  const Variant* variant;
  int part, parts;
  void* shared;
};

// What attn_plan does, with so many threads a CTA, one CTA after the other.
template <int COUNT>
void launch(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  using Threads = PlanThreads<COUNT>;
  for (int part = 0; part <= parts; ++part) {
    typename Threads::Shared shared;
    Launch all = {p, variant, part, parts, &shared};
    auto thread = [](void* of) {
      const Launch& launch = *static_cast<Launch*>(of);
      Threads cta(*static_cast<typename Threads::Shared*>(launch.shared));
      if (launch.part < launch.parts) return copy_pages(cta, *launch.p, launch.part, launch.parts);
      plan_batch(cta, *launch.p, *launch.variant, launch.parts, launch.p->scratch);
    };
    std::make_unique<Fibers>(COUNT, seed + part, thread, &all);
  }
}

extern "C" void plan(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<64>(p, variant, parts, seed);
}
extern "C" void plan_by_1024(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<1024>(p, variant, parts, seed);
}

// What attn_check does, with so many threads.
template <int COUNT>
void check_with(const PlanParams* p, unsigned seed) {
  using Threads = PlanThreads<COUNT>;
  typename Threads::Shared shared;
  Launch all = {p, nullptr, 0, 0, &shared};
  auto thread = [](void* of) {
    const Launch& launch = *static_cast<Launch*>(of);
    Threads cta(*static_cast<typename Threads::Shared*>(launch.shared));
    check_batch(cta, *launch.p);
  };
  std::make_unique<Fibers>(COUNT, seed, thread, &all);
}

extern "C" void check(const PlanParams* p, unsigned seed) { check_with<64>(p, seed); }
extern "C" void check_by_1024(const PlanParams* p, unsigned seed) { check_with<1024>(p, seed); }
