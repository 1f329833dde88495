// The CUDA driver, loaded at run time: programs are compiled without CUDA and start without a driver.
#ifndef DRIVER_H
#define DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t CUdeviceptr;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

// Functions of cuda.h; each returns 0, or an error.
static struct {
  int (*init)(unsigned);
  int (*device_get)(int *, int);
  int (*primary_retain)(void **, int);
  int (*set_current)(void *);
  int (*mem_alloc)(CUdeviceptr *, size_t);
  int (*mem_free)(CUdeviceptr);
  int (*mem_host_alloc)(void **, size_t, unsigned);
  int (*mem_free_host)(void *);
  int (*to_device)(CUdeviceptr, const void *, size_t, CUstream);
  int (*to_host)(void *, CUdeviceptr, size_t, CUstream);
  int (*stream_create)(CUstream *, unsigned);
  int (*stream_destroy)(CUstream);
  int (*stream_synchronize)(CUstream);
  int (*begin_capture)(CUstream, int);
  int (*end_capture)(CUstream, CUgraph *);
  int (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
  int (*launch)(CUgraphExec, CUstream);
  int (*exec_destroy)(CUgraphExec);
  int (*graph_destroy)(CUgraph);
  int (*pointer_attributes)(unsigned, int *, void **, CUdeviceptr);
} cu;

enum { CU_STREAM_NON_BLOCKING = 1, CU_CAPTURE_GLOBAL = 0, CU_POINTER_MEMORY_TYPE = 2 };

#define CU(call)                                                                          \
  do {                                                                                    \
    int code_ = (call);                                                                   \
    if (code_ != 0) {                                                                     \
      fprintf(stderr, "%s:%d: %s: the driver says %d\n", __FILE__, __LINE__, #call, code_); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

// Loads the driver, and makes the primary context of device 0 current. Returns why it cannot.
static inline const char *load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
  if (library == NULL) return "there is no libcuda.so.1";
#define FIND(field, name)                               \
  if ((symbol = dlsym(library, name)) == NULL) return name; \
  memcpy(&cu.field, &symbol, sizeof symbol)
  FIND(init, "cuInit");
  FIND(device_get, "cuDeviceGet");
  FIND(primary_retain, "cuDevicePrimaryCtxRetain");
  FIND(set_current, "cuCtxSetCurrent");
  FIND(mem_alloc, "cuMemAlloc_v2");
  FIND(mem_free, "cuMemFree_v2");
  FIND(mem_host_alloc, "cuMemHostAlloc");
  FIND(mem_free_host, "cuMemFreeHost");
  FIND(to_device, "cuMemcpyHtoDAsync_v2");
  FIND(to_host, "cuMemcpyDtoHAsync_v2");
  FIND(stream_create, "cuStreamCreate");
  FIND(stream_destroy, "cuStreamDestroy_v2");
  FIND(stream_synchronize, "cuStreamSynchronize");
  FIND(begin_capture, "cuStreamBeginCapture_v2");
  FIND(end_capture, "cuStreamEndCapture");
  FIND(instantiate, "cuGraphInstantiateWithFlags");
  FIND(launch, "cuGraphLaunch");
  FIND(exec_destroy, "cuGraphExecDestroy");
  FIND(graph_destroy, "cuGraphDestroy");
  FIND(pointer_attributes, "cuPointerGetAttributes");
#undef FIND
  int device = 0;
  void *context = NULL;
  if (cu.init(0) != 0 || cu.device_get(&device, 0) != 0) return "there is no CUDA device";
  CU(cu.primary_retain(&context, device));
  CU(cu.set_current(context));
  return NULL;
}

#endif
