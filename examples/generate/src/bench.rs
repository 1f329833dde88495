//! Traces of requests, latencies and throughput.
