// A context of execution on a stack of its own, and the switch from one to another. On x86-64 the switch takes a few
// nanoseconds; `swapcontext`, which other architectures use, calls the kernel for the signal mask.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

// Libraries that are loaded together have their own variables: those of inline functions would be shared.
#pragma GCC visibility push(hidden)
#define EXPORT extern "C" __attribute__((visibility("default")))

#ifdef __x86_64__
struct Context {
  void* top;

  // Starts `entry`, which never returns, at the first switch to the context.
  void prepare(char* stack, size_t bytes, void (*entry)()) {
    auto end = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15};
    auto** words = reinterpret_cast<void**>(end) - 2;
    words[0] = reinterpret_cast<void*>(entry);
    words[1] = nullptr;
    top = words - 6;  // registers that the switch restores
    for (int i = 1; i <= 6; ++i) words[-i] = nullptr;
  }
};
extern "C" void attn_switch(void** from, void* to);
asm(R"(
.text
.hidden attn_switch
.globl attn_switch
.type attn_switch, @function
attn_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size attn_switch, .-attn_switch
)");
inline void switch_context(Context& from, Context& to) { attn_switch(&from.top, to.top); }
#else
struct Context {
  ucontext_t saved;

  void prepare(char* stack, size_t bytes, void (*entry)()) {
    getcontext(&saved);
    saved.uc_stack.ss_sp = stack;
    saved.uc_stack.ss_size = bytes;
    makecontext(&saved, entry, 0);
  }
};
inline void switch_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }
#endif
