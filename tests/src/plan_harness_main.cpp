
template <class Params>
struct Launch {
  const Params* p;
  const Variant* variant;
  int part, parts;
  void *shared, *order;
};

unsigned order_words(const PlanParams& p) { return p.capacity_items + SORT_COUNTERS / 2; }
unsigned order_words(const MixedPlanParams& p) { return MixedScratch::order_words(p); }
unsigned order_words(const CascadePlanParams& p) { return CascadeScratch::order_words(p); }

template <class Cta>
void plan_part(Cta& cta, const PlanParams& p, const Variant& variant, int part, int parts, void* order) {
  if (p.capacity_workers == 0 || p.fixed_split_blocks > 0)
    return plan_split_batch(cta, p, variant, part, parts, order);
  if (part < parts) return copy_page_table(cta, p, part, parts);
  plan_batch(cta, p, variant, parts, p.scratch);
}
template <class Cta>
void plan_part(Cta& cta, const MixedPlanParams& p, const Variant& variant, int part, int parts, void* order) {
  plan_mixed_batch(cta, p, variant, part, parts, order);
}
template <class Cta>
void plan_part(Cta& cta, const CascadePlanParams& p, const Variant& variant, int part, int parts, void* order) {
  if (part < parts) return copy_level_pages(cta, p, part, parts);
  plan_cascade(cta, p, variant, parts, order);
}

// Runs attn_plan with COUNT threads per CTA, one CTA after the other.
template <int COUNT, class Params>
void launch(const Params* p, const Variant* variant, int parts, unsigned seed) {
  using Cta = CtaCollectives<COUNT>;
  std::vector<Cost> order(p->capacity_items > 0 ? order_words(*p) : 0, ~0ull / 3);
  for (int part = 0; part <= parts; ++part) {
    typename Cta::TempStorage shared;
    Launch<Params> all = {p, variant, part, parts, &shared, order.data()};
    auto thread = [](void* argument) {
      const Launch<Params>& launch = *static_cast<Launch<Params>*>(argument);
      Cta cta(*static_cast<typename Cta::TempStorage*>(launch.shared));
      plan_part(cta, *launch.p, *launch.variant, launch.part, launch.parts, launch.order);
    };
    std::make_unique<Fibers>(COUNT, seed + part, thread, &all)->run();
  }
}

#ifndef ONLY_LEVELS
EXPORT void plan(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<64>(p, variant, parts, seed);
}
EXPORT void plan_by_1024(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<1024>(p, variant, parts, seed);
}

EXPORT void plan_mixed(const MixedPlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<64>(p, variant, parts, seed);
}
EXPORT void plan_mixed_by_1024(const MixedPlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<1024>(p, variant, parts, seed);
}
#endif

EXPORT void plan_levels(const CascadePlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<64>(p, variant, parts, seed);
}
#ifndef ONLY_LEVELS
EXPORT void plan_levels_by_1024(const CascadePlanParams* p, const Variant* variant, int parts, unsigned seed) {
  launch<1024>(p, variant, parts, seed);
}

// Runs attn_check with COUNT threads.
template <int COUNT>
void check_with(const PlanParams* p, unsigned seed) {
  using Cta = CtaCollectives<COUNT>;
  typename Cta::TempStorage shared;
  Launch<PlanParams> all = {p, nullptr, 0, 0, &shared, nullptr};
  auto thread = [](void* argument) {
    const Launch<PlanParams>& launch = *static_cast<Launch<PlanParams>*>(argument);
    Cta cta(*static_cast<typename Cta::TempStorage*>(launch.shared));
    check_batch(cta, *launch.p);
  };
  std::make_unique<Fibers>(COUNT, seed, thread, &all)->run();
}

EXPORT void check(const PlanParams* p, unsigned seed) { check_with<64>(p, seed); }
EXPORT void check_by_1024(const PlanParams* p, unsigned seed) { check_with<1024>(p, seed); }
#endif
