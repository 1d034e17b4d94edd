// One warp-wide operation, timed by the difference of two loops: UNROLL times BEFORE, and UNROLL times BEFORE and
// MORE. The form of the measurement is that of Burtchell and Burtscher (2024); the code is ours.

typedef VALUE_TYPE Value;

template <int Bytes>
struct Bits {
  typedef unsigned Type;
};
template <>
struct Bits<8> {
  typedef unsigned long long Type;
};
typedef typename Bits<sizeof(Value)>::Type Key;

#ifndef UNROLL
#define UNROLL 100
#endif

template <bool More>
__device__ void run(int rounds, Value* first, Value* second, long long* cycles) {
  const int thread = threadIdx.x + blockIdx.x * blockDim.x;
  Value value = (Value)thread;
  Value kept = value;
  // A match whose result the next one's value waits for, by one LOP3: MATCH.ANY and LOP3 in turn is what nvcc 12.0 makes
  // of the published mask = __match_any_sync(mask, value). Versions from 12.3 on test the mask, and take lanes with masks
  // of their own group by group.
  Key key = thread % 16;
  const unsigned zero = (unsigned)rounds >> 30;
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
  if (key == 123456789u) second[thread] = value;
}

extern "C" __global__ void without(int rounds, Value* first, Value* second, long long* cycles) {
  run<false>(rounds, first, second, cycles);
}

extern "C" __global__ void with_one_more(int rounds, Value* first, Value* second, long long* cycles) {
  run<true>(rounds, first, second, cycles);
}
