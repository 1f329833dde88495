// What the planner kernel needs beside the fibers of a CTA.

// as in every launch that is not mixed
constexpr bool MIXED = false;
constexpr bool SHARED_ROWS = false;
