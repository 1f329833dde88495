
struct Launch {
  const PlanParams* p;
  const Variant* variant;
  int part, parts;
};

extern "C" void plan(const PlanParams* p, const Variant* variant, int parts, unsigned seed) {
  for (int part = 0; part <= parts; ++part) {
    Launch launch = {p, variant, part, parts};
    auto cta = [](Fibers& cta, void* of) {
      const Launch& launch = *static_cast<Launch*>(of);
      if (launch.part < launch.parts) return copy_pages(cta, *launch.p, launch.part, launch.parts);
      plan_batch(cta, *launch.p, *launch.variant, launch.parts, launch.p->scratch);
    };
    Fibers(seed + part, cta, &launch);
  }
}
