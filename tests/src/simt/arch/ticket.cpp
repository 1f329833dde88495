// The ticket counter of schedule/tile_scheduler.cuh.
inline unsigned ticket_fetch_inc(unsigned* counter) { return (*counter)++; }
