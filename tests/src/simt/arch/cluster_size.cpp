// The wrapper of merge/cluster_partials.cuh.
inline unsigned cluster_ctas() { return cluster.ctas; }
