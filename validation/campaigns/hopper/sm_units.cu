// What one SM does when warps wait, add to random words, gather from L1, read twice, or convert bytes; which
// SMs form a group. Each warp notes the SM's clock; `sm_units.py` says with which arguments.
typedef unsigned int u32;
typedef unsigned long long u64;

// The low half of the long clock: the short one is read by S2UR where all lanes agree, which takes longer.
__device__ __forceinline__ u32 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory");
  return (u32)t;
}
__device__ __forceinline__ u32 sm() {
  u32 t;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
  return t;
}
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// The SM of each block: those of a cluster are of one group.
extern "C" __global__ void group_members(u32 *sms) {
  if (threadIdx.x == 0) sms[blockIdx.x] = sm();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

enum { TRY, TEST, NAMED, HINT, SLEEP };

template <int WAIT> __device__ __forceinline__ void wait_for(u32 bar, u32 parity, u32 more) {
  if (WAIT == TRY)
    asm volatile("{ .reg .pred p; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;"
        " @p bra DONE; bra LAB_WAIT; DONE: }" :: "r"(bar), "r"(parity) : "memory");
  if (WAIT == TEST)
    asm volatile("{ .reg .pred p; LAB_WAIT: mbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1;"
        " @p bra DONE; bra LAB_WAIT; DONE: }" :: "r"(bar), "r"(parity) : "memory");
  if (WAIT == HINT)
    asm volatile("{ .reg .pred p; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, %2;"
        " @p bra DONE; bra LAB_WAIT; DONE: }" :: "r"(bar), "r"(parity), "r"(more) : "memory");
  if (WAIT == NAMED) asm volatile("bar.sync 1, %0;" :: "r"(more) : "memory");
}

// Warp 0 arrives `delays[d]` cycles after the start, or begins a bulk copy then; the others wait for that.
// times: [delay][repeat][warp] the clock before and after the arrival, and before and after the wait.
template <int WAIT, bool COPY> __device__ void wait_kernel(
    u32 *times, const u32 *delays, const char *data, int count, int repeats, u32 more) {
  __shared__ __align__(128) char space[COPY ? 16384 : 128];
  __shared__ u64 barrier;
  u32 warp = threadIdx.x / 32, warps = blockDim.x / 32, bar = shared_address(&barrier), step = 0;
  bool first_lane = threadIdx.x % 32 == 0;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async;");
  }
  for (int d = 0; d < count; d++) {
    u32 delay = delays[d];
    for (int r = 0; r < repeats; r++, step++) {
      __syncthreads();
      u32 begin = now(), end;
      if (warp == 0) {
        u32 zero = begin;
        if (COPY && first_lane)
          asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
              :: "r"(bar), "r"(more) : "memory");
        do begin = now(); while (begin - zero < delay);
        if (WAIT == NAMED) {
          asm volatile("bar.arrive 1, %0;" :: "r"(blockDim.x) : "memory");
        } else if (first_lane) {
          if (COPY)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                :: "r"(shared_address(space)), "l"(data), "r"(more), "r"(bar) : "memory");
          else
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
        }
        end = now();
      } else {
        wait_for<WAIT>(bar, step & 1, WAIT == NAMED ? blockDim.x : more);
        end = now();
      }
      if (first_lane) {
        times[2 * ((d * repeats + r) * warps + warp)] = begin;
        times[2 * ((d * repeats + r) * warps + warp) + 1] = end;
      }
    }
  }
}
#define WAIT_KERNEL(NAME, WAIT, COPY) extern "C" __global__ void NAME(u32 *times, const u32 *delays, \
    const char *data, int count, int repeats, u32 more) { \
  wait_kernel<WAIT, COPY>(times, delays, data, count, repeats, more); \
}
WAIT_KERNEL(wait_try, TRY, false)
WAIT_KERNEL(wait_test, TEST, false)
WAIT_KERNEL(wait_named, NAMED, false)
WAIT_KERNEL(wait_hint, HINT, false)
WAIT_KERNEL(wait_copy_try, TRY, true)
WAIT_KERNEL(wait_copy_test, TEST, true)

enum { FFMA, CHAIN, LDS, IADD };

#define TWICE(X) X X
#define TIMES8(X) TWICE(TWICE(TWICE(X)))

template <int WORK> __device__ __forceinline__ void work_64(u32 &a, u32 &b, u32 &c, u32 &d, u32 at) {
  if (WORK == FFMA)
    asm volatile(TWICE(TIMES8(
        "fma.rn.f32 %0, %0, %0, %0;\n fma.rn.f32 %1, %1, %1, %1;\n"
        "fma.rn.f32 %2, %2, %2, %2;\n fma.rn.f32 %3, %3, %3, %3;\n"))
        : "+f"(*(float *)&a), "+f"(*(float *)&b), "+f"(*(float *)&c), "+f"(*(float *)&d));
  if (WORK == CHAIN)
    asm volatile(TIMES8(TIMES8("fma.rn.f32 %0, %0, %0, %0;\n")) : "+f"(*(float *)&a));
  if (WORK == LDS) {
    u32 v[64];
    #pragma unroll
    for (int j = 0; j < 64; j++)
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[j]) : "r"(at + 128 * j) : "memory");
    #pragma unroll
    for (int j = 0; j < 64; j += 2) a ^= v[j] ^ v[j + 1];
  }
  if (WORK == IADD)
    asm volatile("{ .reg .u32 t;\n" TWICE(TIMES8(
        "add.u32 t, %0, %4;\n add.u32 %0, t, %5;\n add.u32 t, %1, %4;\n add.u32 %1, t, %5;\n"
        "add.u32 t, %2, %4;\n add.u32 %2, t, %5;\n add.u32 t, %3, %4;\n add.u32 %3, t, %5;\n"))
        "}" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(at), "r"(at + blockDim.x));
}

// Warps 0 to 3 work, one at each scheduler: 64 instructions by `rounds`. The others wait until all four are
// done.
// times: [repeat][warp] cycles.
template <int WORK, int WAIT> __device__ void slots_kernel(u32 *times, u32 *sink, int rounds, int repeats) {
  __shared__ u32 words[66 * 32];
  __shared__ u64 barrier;
  __shared__ volatile u32 done;
  u32 warp = threadIdx.x / 32, warps = blockDim.x / 32, bar = shared_address(&barrier);
  u32 at = shared_address(&words[threadIdx.x % 32]);
  u32 a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
  if (WORK == LDS) for (u32 i = threadIdx.x; i < 66 * 32; i += blockDim.x) words[i] = i;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 4;" :: "r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    done = 0;
  }
  for (int r = 0; r < repeats; r++) {
    __syncthreads();
    u32 first = now();
    if (warp < 4) {
      #pragma unroll 1
      for (int k = 0; k < rounds; k++) work_64<WORK>(a, b, c, d, at + ((k & 1) << 7));
      if (a + b + c + d == 0x12345) sink[1024] = a;
    } else {
      if (WAIT == SLEEP) { while (done < 4 * (r + 1)) __nanosleep(100); }
      else wait_for<WAIT>(bar, r & 1, blockDim.x);
    }
    u32 last = now();
    if (warp < 4) {
      if (WAIT == NAMED) asm volatile("bar.arrive 1, %0;" :: "r"(blockDim.x) : "memory");
      else if (threadIdx.x % 32 == 0) {
        if (WAIT == SLEEP) atomicAdd((u32 *)&done, 1u);
        else asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
      }
    }
    if (threadIdx.x % 32 == 0) times[r * warps + warp] = last - first;
  }
  sink[threadIdx.x] = a + b + c + d;
}
#define SLOTS(WORK, WAIT) extern "C" __global__ void slots_##WORK##_##WAIT( \
    u32 *times, u32 *sink, int rounds, int repeats) { \
  slots_kernel<WORK, WAIT>(times, sink, rounds, repeats); \
}
#define SLOTS_OF(WORK) SLOTS(WORK, TRY) SLOTS(WORK, TEST) SLOTS(WORK, NAMED) SLOTS(WORK, SLEEP)
SLOTS_OF(FFMA)
SLOTS_OF(CHAIN)
SLOTS_OF(LDS)
SLOTS_OF(IADD)

enum { CAS, ADD, EXCH };

__device__ __forceinline__ u32 hash(u32 x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16;
}

template <int OP, bool RETURNS> __device__ __forceinline__ u32 changed(u32 *at, u32 value) {
  if (OP == ADD && !RETURNS) {
    asm volatile("red.global.add.u32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
    return 0;
  }
  return OP == CAS ? atomicCAS(at, 0u, value) : OP == ADD ? atomicAdd(at, value) : atomicExch(at, value);
}

// `steps` operations of each thread on words that a hash names, at once or one after the other.
// times: [warp of the grid] SM, clock at begin, when all results are there, and behind a fence.
template <int OP, bool RETURNS, bool CHAINED> __device__ void words_kernel(
    u32 *times, u32 *sink, u32 *data, u32 mask, int steps) {
  u32 thread = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  __syncthreads();
  u32 first = now();
  if (CHAINED) {
    #pragma unroll 1
    for (int s = 0; s < steps; s++)
      sum = changed<OP, RETURNS>(data + ((hash(thread * steps + s) + (sum & 0x80000000u)) & mask), 1);
  } else {
    #pragma unroll 8
    for (int s = 0; s < steps; s++) {
      u32 old = changed<OP, RETURNS>(data + (hash(thread * steps + s) & mask), 1);
      if (RETURNS) sum += old;
    }
  }
  if (sum == 0x12345678) sink[0] = sum;
  u32 last = now();
  __threadfence();
  u32 behind = now();
  if (threadIdx.x % 32 == 0) {
    times[thread / 32 * 4] = sm();
    times[thread / 32 * 4 + 1] = first;
    times[thread / 32 * 4 + 2] = last;
    times[thread / 32 * 4 + 3] = behind;
  }
}
#define WORDS(NAME, OP, RETURNS, CHAINED) extern "C" __global__ void words_##NAME( \
    u32 *times, u32 *sink, u32 *data, u32 mask, int steps) { \
  words_kernel<OP, RETURNS, CHAINED>(times, sink, data, mask, steps); \
}
WORDS(cas, CAS, true, false)
WORDS(cas_no, CAS, false, false)
WORDS(cas_chain, CAS, true, true)
WORDS(add, ADD, true, false)
WORDS(add_no, ADD, false, false)
WORDS(exch, EXCH, true, false)
WORDS(exch_no, EXCH, false, false)

// Bring a table into L1.
__device__ __forceinline__ void sweep(u32 *sink, const u32 *data, u32 words, u32 begin, u32 step) {
  u32 sum = 0;
  #pragma unroll 8
  for (u32 at = begin; at < words; at += step) sum += data[at];
  if (sum == 77) sink[2] = sum;
}

// Loads of 32 words each, that a hash names, of tables of so many words.
// times: [size][turn][warp] cycles of 256.
extern "C" __global__ void gather(
    u32 *times, u32 *sink, const u32 *data, const u32 *words_of, int sizes, int rounds) {
  u32 warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int s = 0; s < sizes; s++) {
    u32 words = words_of[s], x = threadIdx.x * 0x9E3779B9u + 12345u;
    sweep(sink, data, words, threadIdx.x, blockDim.x);
    for (int turn = 0; turn < rounds; turn++) {
      __syncthreads();
      u32 sum = 0, first = now();
      #pragma unroll 1
      for (int k = 0; k < 32; k++) {
        u32 value[8];
        #pragma unroll
        for (int j = 0; j < 8; j++) {
          x = x * 1664525u + 1013904223u;
          asm volatile("ld.global.u32 %0, [%1];" : "=r"(value[j]) : "l"(data + __umulhi(x, words)));
        }
        #pragma unroll
        for (int j = 0; j < 8; j++) sum ^= value[j];
      }
      if (sum == 77) sink[0] = sum;
      u32 last = now();
      if (threadIdx.x % 32 == 0) times[(s * rounds + turn) * warps + warp] = last - first;
    }
  }
}

// One lane's loads, one after the other. order 0: of words that a hash names; 1: of all lines in turn.
// times: [size][turn] cycles of all, and how many took more than 100.
extern "C" __global__ void chase(
    u32 *times, u32 *sink, const u32 *data, const u32 *words_of, int sizes, int rounds, int order) {
  for (int s = 0; s < sizes; s++) {
    u32 words = words_of[s], x = 12345u, v = 0, at = 0;
    sweep(sink, data, words, 0, 8);
    for (int turn = 0; turn < rounds; turn++) {
      u32 all = 0, slow = 0;
      #pragma unroll 1
      for (int k = 0; k < 2048; k++) {
        x = x * 1664525u + 1013904223u;
        u32 place = order ? at : __umulhi(x, words);
        at += 32;
        if (at >= words) at = 0;
        u32 first = now();
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(data + place + v) : "memory");
        if (v == 77) sink[1] = v;
        u32 took = now() - first;
        all += took;
        slow += took > 100;
      }
      times[2 * (s * rounds + turn)] = all;
      times[2 * (s * rounds + turn) + 1] = slow;
    }
  }
}

__device__ __forceinline__ float total(float x) { return x; }
__device__ __forceinline__ float total(float4 x) { return x.x + x.y + x.z + x.w; }
__device__ __forceinline__ float scaled(float x, float a) { return x * a + a; }
__device__ __forceinline__ float4 scaled(float4 x, float a) {
  return make_float4(x.x * a + a, x.y * a + a, x.z * a + a, x.w * a + a);
}

// A block reads `count` values of its own, four at a time, sums them up, and reads them again to write them.
// times: [block] SM, clock at begin, behind the sum, and at the end, of its warp 0.
template <typename T> __device__ void twice(
    u32 *times, T *__restrict__ out, const T *__restrict__ data, int count) {
  __shared__ float parts[32];
  u32 begin = now();
  const T *mine = data + (size_t)blockIdx.x * count;
  T *to = out + (size_t)blockIdx.x * count;
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += 4 * blockDim.x) {
    T value[4];
    #pragma unroll
    for (int j = 0; j < 4; j++) value[j] = i + j * blockDim.x < count ? mine[i + j * blockDim.x] : T();
    #pragma unroll
    for (int j = 0; j < 4; j++) sum += total(value[j]);
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0;
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (sum == 77) times[0] = 1;
  u32 middle = now();
  for (int i = threadIdx.x; i < count; i += 4 * blockDim.x) {
    T value[4];
    #pragma unroll
    for (int j = 0; j < 4; j++) value[j] = i + j * blockDim.x < count ? mine[i + j * blockDim.x] : T();
    #pragma unroll
    for (int j = 0; j < 4; j++)
      if (i + j * blockDim.x < count) to[i + j * blockDim.x] = scaled(value[j], sum);
  }
  u32 end = now();
  if (threadIdx.x == 0) {
    times[4 * blockIdx.x] = sm();
    times[4 * blockIdx.x + 1] = begin;
    times[4 * blockIdx.x + 2] = middle;
    times[4 * blockIdx.x + 3] = end;
  }
}
extern "C" __global__ void twice_words(
    u32 *times, float *__restrict__ out, const float *__restrict__ data, int count) {
  twice(times, out, data, count);
}
extern "C" __global__ void twice_fours(
    u32 *times, float4 *__restrict__ out, const float4 *__restrict__ data, int count) {
  twice(times, out, data, count);
}

// Bytes: what a mix has, by bits. Without loads the conversions are chains.
enum { LOAD = 1, TO_FLOAT = 2, FFMAS = 4, TO_INT = 8, STORE = 16 };

template <int MIX> __device__ void convert(
    u32 *times, u32 *sink, unsigned char *out, const unsigned char *data, int rounds) {
  const int ACTIVE[5] = {1, 4, 8, 16, 32};
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 x[8];
  #pragma unroll
  for (int j = 0; j < 8; j++) x[j] = threadIdx.x + j;
  float a = rounds;
  #pragma unroll
  for (int c = 0; c < 5; c++) {
    for (int turn = 0; turn < 3; turn++) {
      __syncthreads();
      u32 first = now();
      if (warp < ACTIVE[c]) {
        #pragma unroll 1
        for (int r = 0; r < rounds; r++) {
          const unsigned char *from = data + lane + ((r & 7) << 8);
          unsigned char *to = out + (warp << 8) + lane;
          u32 value[8];
          #pragma unroll
          for (int j = 0; j < 8; j++) {
            value[j] = x[j];
            if (MIX & LOAD) asm volatile("ld.global.u8 %0, [%1];" : "=r"(value[j]) : "l"(from + 32 * j));
          }
          #pragma unroll
          for (int j = 0; j < 8; j++) {
            float f = __uint_as_float(value[j]);
            if (MIX & TO_FLOAT) asm volatile("cvt.rn.f32.u32 %0, %1;" : "=f"(f) : "r"(value[j]));
            if (MIX & FFMAS) { f = __fmaf_rn(f, a, a); f = __fmaf_rn(f, f, a); }
            value[j] = __float_as_uint(f);
            if (MIX & TO_INT) asm volatile("cvt.rzi.u32.f32 %0, %1;" : "=r"(value[j]) : "f"(f));
            if (MIX & STORE)
              asm volatile("st.global.u8 [%0], %1;" :: "l"(to + 32 * j), "r"(value[j]) : "memory");
          }
          #pragma unroll
          for (int j = 0; j < 8; j++) {
            if (!(MIX & LOAD)) x[j] = value[j];
            else if (!(MIX & STORE)) x[j] ^= value[j];
          }
        }
      }
      u32 all = 0;
      #pragma unroll
      for (int j = 0; j < 8; j++) all ^= x[j];
      if (all == 0x12345678) sink[0] = all;
      u32 last = now();
      if (lane == 0) times[(c * 3 + turn) * 32 + warp] = last - first;
    }
  }
}
#define CONVERT(MIX) extern "C" __global__ void convert_##MIX(u32 *times, u32 *sink, unsigned char *out, \
    const unsigned char *data, int rounds) { convert<MIX>(times, sink, out, data, rounds); }
CONVERT(1) CONVERT(2) CONVERT(3) CONVERT(7) CONVERT(8) CONVERT(10) CONVERT(11)
CONVERT(15) CONVERT(16) CONVERT(17) CONVERT(24) CONVERT(27) CONVERT(31)
