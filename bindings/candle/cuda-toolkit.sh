#!/usr/bin/env bash
# A CUDA toolkit for building candle's CUDA backend, from NVIDIA's wheels: no root, no GPU, no driver.
#
#   source bindings/candle/cuda-toolkit.sh [FOLDER]        (default: target/cuda)
#   CUDA_COMPUTE_CAP=90 cargo build --release -p attn-candle --features cuda
#
# It needs Python 3 with pip, and a C++ compiler. A program built so needs, where it runs, the driver and the shared
# libraries of CUDA 13 (cudart, cublas, cublasLt, curand, nvrtc), which the same wheels hold.
_folder=$(mkdir -p "${1:-target/cuda}" && cd "${1:-target/cuda}" && pwd)
if [[ ! -x $_folder/bin/python ]]; then
  python3 -m venv "$_folder" || return 1
fi
if ! compgen -G "$_folder/lib/python3*/site-packages/nvidia/cu13/bin/nvcc" > /dev/null; then
  # one minor version for all: nvcc, its front and back ends, headers, and the libraries that candle links
  "$_folder/bin/pip" install --quiet --no-deps 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' \
    'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-nvrtc==13.0.*' \
    'nvidia-cublas==13.0.*' 'nvidia-curand==10.4.0.*' || return 1
fi
CUDA_HOME=$(echo "$_folder"/lib/python3*/site-packages/nvidia/cu13)
export CUDA_HOME CUDA_PATH=$CUDA_HOME CUDA_TOOLKIT_ROOT_DIR=$CUDA_HOME PATH=$CUDA_HOME/bin:$PATH
# wheels hold no links without a version, which linkers look for
for _library in cudart cublas cublasLt curand nvrtc; do
  ln -sf "$(cd "$CUDA_HOME/lib" && echo lib$_library.so.*)" "$CUDA_HOME/lib/lib$_library.so"
done
ln -sfn lib "$CUDA_HOME/lib64"
# the driver's library comes with the driver; to link, one of its name does, with functions of these names alone
mkdir -p "$CUDA_HOME/lib/stubs"
if [[ ! -e $CUDA_HOME/lib/stubs/libcuda.so ]]; then
  grep -ohE '\bcu[A-Z][A-Za-z0-9_]*' "$CUDA_HOME/include/cuda.h" | sort -u | sed 's/.*/void &(void) {}/' |
    "${CC:-cc}" -shared -nostdlib -fPIC -x c - -Wl,-soname,libcuda.so.1 -o "$CUDA_HOME/lib/stubs/libcuda.so" || return 1
fi
unset _folder _library
