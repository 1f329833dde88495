// Kernel entry attn_verify_tree: verifies a tree of drafts. attn-core/src/sampling/verify is the CPU reference, with
// the same bits. Grid: requests * CLUSTER_CTAS.
//
// One warp of each CTA walks the tree, which is in shared memory; then all CTAs draw the last token.
#pragma once
#include "sampling/residual_draw.cuh"
#include "sampling/verify_params.cuh"
#include "lang/random.cuh"
#include "sampling/coin.cuh"

struct TreeShared {
  DrawShared draw;
  int node, accepted, refused, pad;
};
static_assert(sizeof(TreeShared) == VERIFY_SHARED_BYTES, "verify_abi.rs and the template agree");

// The tree of a request in shared memory. What is out of range is -1.
struct Tree {
  int nodes;
  int *tokens, *slots, *children, *siblings;
  int* refused;  // what the walk refuses at its last node

  Tree(int count, TreeShared& s) : nodes(count) {
    int* arrays[TREE_ARRAYS];
#pragma unroll
    for (int i = 0; i < TREE_ARRAYS; ++i) arrays[i] = reinterpret_cast<int*>(&s + 1) + i * nodes;
    tokens = arrays[0], slots = arrays[1], children = arrays[2], siblings = arrays[3], refused = arrays[4];
  }
  static int in_range(int x, long long end) { return 0 <= x && x < end ? x : -1; }
  void load(const VerifyTreeParams& p, long long request) const {
    long long base = request * nodes;
    for (int i = threadIdx.x; i < nodes; i += VERIFY_THREADS) {
      tokens[i] = in_range(p.draft_ids[base + i], p.vocab);
      slots[i] = in_range(p.retrieve_index[base + i], static_cast<long long>(p.requests) * nodes);
      children[i] = in_range(p.retrieve_next_token[base + i], nodes);
      siblings[i] = in_range(p.retrieve_next_sibling[base + i], nodes);
    }
  }
};

// Walks from node 0 as far as drafts are accepted, by one warp. `writes`: whether it stores them.
inline void walk(const VerifyTreeParams& p, const Tree& tree, TreeShared& s, const float* target, u64 seed, u64 first,
                 int* accept_index, bool writes) {
  int lane = threadIdx.x % 32, node = 0, accepted = 0, refused = 0;
  writes = writes && lane == 0;
  if (writes) accept_index[0] = tree.slots[0];
#pragma unroll 1
  while (true) {
    const float* row = target + node * p.target_row;
    float coin = lang::verify::coin(lang::random::bits64(seed, first + accepted, lang::verify::TEST)), sum = 0.f;
    int next = tree.children[node], found = -1;
    refused = 0;
    // a list of siblings that is a ring ends too
#pragma unroll 1
    while (found < 0 && next >= 0 && refused < tree.nodes) {
      // a sibling a lane, so that their probabilities are loaded at once
      int mine = -1, siblings = 0;
#pragma unroll 1
      for (; siblings < 32 && next >= 0 && refused + siblings < tree.nodes; ++siblings) {
        if (lane == siblings) mine = next;
        next = tree.siblings[next];
      }
      int token = mine >= 0 ? tree.tokens[mine] : -1, tested = 0;
      float prob = token >= 0 ? row[token] : 0.f;
      // in order, since sums of floats depend on it
#pragma unroll 1
      for (; tested < siblings; ++tested) {
        float of_tested = __shfl_sync(0xffffffffu, prob, tested);
        sum += of_tested;
        if (lang::verify::reaches(coin, sum, of_tested, p.threshold_single, p.threshold_acc)) break;
      }
      if (tested < siblings) found = __shfl_sync(0xffffffffu, mine, tested);
      if (lane < tested) tree.refused[refused + lane] = token;
      refused += tested;
    }
    if (found < 0 || accepted + 1 >= tree.nodes) break;
    ++accepted;
    if (writes) {
      if (tree.slots[node] >= 0) p.ids[tree.slots[node]] = tree.tokens[found];
      accept_index[accepted] = tree.slots[found];
    }
    node = found;
  }
  if (lane == 0) s.node = node, s.accepted = accepted, s.refused = refused;
}

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(VERIFY_THREADS, 3)
    attn_verify_tree(const __grid_constant__ VerifyTreeParams p) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  TreeShared& s = *reinterpret_cast<TreeShared*>(shared_memory);
  Tree tree(p.nodes, s);
  long long request = blockIdx.x / CLUSTER_CTAS;
  bool leader = cluster_rank() == 0;
  const float* target = p.target_probs + request * p.target_request;
  int* accept_index = p.accept_index + request * p.nodes;
  u64 first = static_cast<u64>(p.positions[request]), seed = p.seeds ? p.seeds[request] : p.all_seeds;
  tree.load(p, request);
  __syncthreads();
  if (threadIdx.x < 32) walk(p, tree, s, target, seed, first, accept_index, leader);
  __syncthreads();
  int node = s.node, accepted = s.accepted;
  MassRow row{target + node * p.target_row, nullptr, tree.refused, s.refused, p.vocab, p.wide != 0};
  unsigned purpose = tree.children[node] < 0 ? lang::verify::DRAW : lang::verify::RESIDUAL;
  u64 random = lang::random::bits64(seed, first + accepted, purpose);
  // without a slot, the token goes where nobody reads it
  int slot = tree.slots[node];
  int* to = slot >= 0 ? p.ids + slot : &s.pad;
  draw_token(row, p.slice, s.draw, random, to);
  if (!leader) return;
  for (int i = accepted + 1 + threadIdx.x; i < p.nodes; i += VERIFY_THREADS) accept_index[i] = -1;
  if (threadIdx.x == 0) {
    p.accepted[request] = accepted;
    p.positions[request] = static_cast<long long>(first + accepted + 1);
  }
}
