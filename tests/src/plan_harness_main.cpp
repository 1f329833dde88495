
struct Launch {
  const PlanParams* p;
  const Variant* variant;
  int part, parts;
  void* shared;
};

// Runs attn_plan with COUNT threads per CTA, one CTA after the other.
template <int COUNT>
void launch(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  using Cta = CtaCollectives<COUNT>;
  for (int part = 0; part <= parts; ++part) {
    typename Cta::TempStorage shared;
    Launch all = {p, variant, part, parts, &shared};
    auto thread = [](void* argument) {
      const Launch& launch = *static_cast<Launch*>(argument);
      Cta cta(*static_cast<typename Cta::TempStorage*>(launch.shared));
      if (launch.part < launch.parts) return copy_page_table(cta, *launch.p, launch.part, launch.parts);
      plan_batch(cta, *launch.p, *launch.variant, launch.parts, launch.p->scratch);
    };
    std::make_unique<Fibers>(COUNT, seed + part, thread, &all);
  }
}

EXPORT void plan(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<64>(p, variant, parts, seed);
}
EXPORT void plan_by_1024(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<1024>(p, variant, parts, seed);
}

// Runs attn_check with COUNT threads.
template <int COUNT>
void check_with(const PlanParams* p, unsigned seed) {
  using Cta = CtaCollectives<COUNT>;
  typename Cta::TempStorage shared;
  Launch all = {p, nullptr, 0, 0, &shared};
  auto thread = [](void* argument) {
    const Launch& launch = *static_cast<Launch*>(argument);
    Cta cta(*static_cast<typename Cta::TempStorage*>(launch.shared));
    check_batch(cta, *launch.p);
  };
  std::make_unique<Fibers>(COUNT, seed, thread, &all);
}

EXPORT void check(const PlanParams* p, unsigned seed) { check_with<64>(p, seed); }
EXPORT void check_by_1024(const PlanParams* p, unsigned seed) { check_with<1024>(p, seed); }
