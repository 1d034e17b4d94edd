// One warp-wide operation, timed by the difference of two loops: UNROLL times BEFORE, and UNROLL times BEFORE and
// MORE. The form of the measurement is that of Burtchell and Burtscher (2024); the code is ours.

typedef VALUE_TYPE Value;

#ifndef UNROLL
#define UNROLL 100
#endif

template <bool More>
__device__ void run(int rounds, Value* first, Value* second, long long* cycles) {
  const int thread = threadIdx.x + blockIdx.x * blockDim.x;
  Value value = (Value)thread;
  Value kept = value;
  unsigned mask = 0xffffffffu;
  long long begin = 0;
  for (int round = -1; round < rounds; round++) {  // the first one warms the caches
    if (round == 0) {
      __syncthreads();
      begin = clock64();
    }
#pragma unroll
    for (int step = 0; step < UNROLL; step++) {
      BEFORE;
      if (More) {
        MORE;
      }
      AFTER;
    }
  }
  cycles[thread] = clock64() - begin;
  if (kept == (Value)123456789) second[thread] = kept;
  if (mask == 123456789u) second[thread] = value;
}

extern "C" __global__ void without(int rounds, Value* first, Value* second, long long* cycles) {
  run<false>(rounds, first, second, cycles);
}

extern "C" __global__ void with_one_more(int rounds, Value* first, Value* second, long long* cycles) {
  run<true>(rounds, first, second, cycles);
}
