// What SMs share of L2, what a cluster's memory takes, what loads of pending lines take, and caches of constants.
// Each block notes clocks; `memory_units.py` says with which arguments.
typedef unsigned int u32;
typedef unsigned long long u64;
struct __align__(64) CUtensorMap { u64 words[16]; };

__device__ __forceinline__ u32 now() { u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
__device__ __forceinline__ u64 nanoseconds() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }
__device__ __forceinline__ u32 sm() { u32 t; asm volatile("mov.u32 %0, %%smid;" : "=r"(t)); return t; }
__device__ __forceinline__ u32 cluster_number() { u32 t; asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(t)); return t; }
__device__ __forceinline__ u32 cluster_rank() { u32 t; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(t)); return t; }
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// All blocks of the grid have come so far. The counter only grows, so that the next launch finds it in order.
__device__ void meet(u32 *counter) {
  __threadfence();
  u32 target = (atomicAdd(counter, 1u) / gridDim.x + 1) * gridDim.x;
  while (*(volatile u32 *)counter < target) { }
}

__device__ __forceinline__ void make_barriers(u64 *barriers, int count) {
  for (int s = 0; s < count; s++)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(shared_address(&barriers[s])));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("fence.proxy.async;");
}

__device__ __forceinline__ void wait_for(u32 barrier, u32 parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }"
      :: "r"(barrier), "r"(parity) : "memory");
}

const u32 IDLE = 0xFFFFFFFFu;  // instead of a region: this SM only meets the others

// Bulk copies of a region of L2 by each SM. One thread begins them, at most one every 590 cycles, since it divides. `region_of` and `wait_of` are by the SM's number (by = 0) or by the
// number of the block (by = 1). times: SM, cycles, and the clock of the GPU at begin and end, of each block.
extern "C" __global__ void shared_copies(u64 *times, const char *data, const u32 *region_of, const u32 *wait_of,
    u32 *counter, int by, int region_bytes, int bytes, int copies, int stages) {
  extern __shared__ __align__(128) char space[];
  __shared__ u64 barriers[8];
  if (threadIdx.x != 0) return;
  make_barriers(barriers, stages);
  u32 number = by ? blockIdx.x : sm();
  u32 place = region_of[number];
  const char *region = data + (u64)place * region_bytes;
  u32 wait = wait_of[number];
  u32 turn = 0;
  for (int repeat = 0; repeat < 2; repeat++) {
    meet(counter);
    if (place == IDLE) continue;
    u32 zero = now();
    while (now() - zero < wait) { }
    u32 first = now();
    u64 begin = nanoseconds();
    for (int c = 0; c < copies + stages; c++) {
      int s = c % stages;
      u32 bar = shared_address(&barriers[s]);
      if (c >= stages) {
        wait_for(bar, (turn + (c / stages) - 1) & 1);
      }
      if (c < copies) {
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(shared_address(space + s * bytes)), "l"(region + ((u64)c * bytes) % region_bytes), "r"(bytes), "r"(bar)
            : "memory");
      }
    }
    turn += copies / stages;
    u32 last = now();
    u64 end = nanoseconds();
    times[4 * blockIdx.x] = sm();
    times[4 * blockIdx.x + 1] = last - first;
    times[4 * blockIdx.x + 2] = begin;
    times[4 * blockIdx.x + 3] = end;
  }
}

// The same by loads of 16 bytes a lane that pass L1 by; 1,024 threads. With a pitch a tile is 128 rows of 128 bytes.
extern "C" __global__ void shared_loads(u64 *times, const char *data, const u32 *region_of, const u32 *wait_of,
    u32 *counter, int by, int region_bytes, int bytes, int copies, int pitch) {
  u32 number = by ? blockIdx.x : sm(), sum = 0, place = region_of[number];
  const char *region = data + (u64)place * region_bytes;
  u32 at = pitch ? threadIdx.x / 8 * pitch + threadIdx.x % 8 * 16 : 16 * threadIdx.x, step = pitch ? 128 : bytes;
  u32 wait = wait_of[number];
  for (int repeat = 0; repeat < 2; repeat++) {
    if (threadIdx.x == 0) meet(counter);
    __syncthreads();
    if (place == IDLE) continue;
    u32 zero = now();
    while (now() - zero < wait) { }
    u32 first = now();
    u64 begin = nanoseconds();
    #pragma unroll 4
    for (int c = 0; c < copies; c++) {
      u32 x, y, z, w;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
          : "l"(region + at + (pitch ? c % 8 * step : ((u64)c * step) % region_bytes)));
      sum += x + y + z + w;
    }
    if (sum == 0x12345) times[0] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      times[4 * blockIdx.x] = sm();
      times[4 * blockIdx.x + 1] = now() - first;
      times[4 * blockIdx.x + 2] = begin;
      times[4 * blockIdx.x + 3] = nanoseconds();
    }
  }
}

// Tiles of 64 rows of 128 bytes of a matrix of halves, by its map. A region is 64 rows; from 64 on its second half.
extern "C" __global__ void shared_tiles(u64 *times, const __grid_constant__ CUtensorMap map, const u32 *region_of,
    const u32 *wait_of, u32 *counter, int columns, int copies, int stages) {
  extern __shared__ __align__(1024) char space[];
  __shared__ u64 barriers[8];
  if (threadIdx.x != 0) return;
  make_barriers(barriers, stages);
  u32 place = region_of[sm()], wait = wait_of[sm()], turn = 0;
  int row = place % 64 * 64, first_column = place / 64 * (columns / 2);
  for (int repeat = 0; repeat < 2; repeat++) {
    meet(counter);
    if (place == IDLE) continue;
    u32 zero = now();
    while (now() - zero < wait) { }
    u32 first = now();
    u64 begin = nanoseconds();
    for (int c = 0; c < copies + stages; c++) {
      int s = c % stages;
      u32 bar = shared_address(&barriers[s]);
      if (c >= stages) {
        wait_for(bar, (turn + (c / stages) - 1) & 1);
      }
      if (c < copies) {
        int x = (first_column + c) % columns * 64;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(8192) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            :: "r"(shared_address(space + s * 8192)), "l"(&map), "r"(x), "r"(row), "r"(bar) : "memory");
      }
    }
    turn += copies / stages;
    times[4 * blockIdx.x] = sm();
    times[4 * blockIdx.x + 1] = now() - first;
    times[4 * blockIdx.x + 2] = begin;
    times[4 * blockIdx.x + 3] = nanoseconds();
  }
}

// A chain of loads from the memory of each block of the cluster, by each block in turn.
// times: [cluster][from][to] cycles of 64 loads; sms: [cluster][block].
extern "C" __global__ void cluster_chain(u32 *times, u32 *sms, int size) {
  __shared__ u32 chain[64];
  u32 rank = cluster_rank();
  for (int k = threadIdx.x; k < 64; k += 32) chain[k] = (k + 17) % 64;
  if (threadIdx.x == 0) sms[cluster_number() * size + rank] = sm();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  for (int from = 0; from < size; from++) {
    for (int to = 0; to < size; to++) {
      if (rank == from) {
        u32 base, at = 0, spent = 0;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(base) : "r"(shared_address(chain)), "r"(to));
        for (int turn = 0; turn < 2; turn++) {
          u32 first = now();
          #pragma unroll 16
          for (int k = 0; k < 64; k++)
            asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(at) : "r"(base + 4 * at) : "memory");
          if (at == 99) sms[0] = at;  // so that the last load is waited for
          spent = now() - first;
        }
        if (threadIdx.x == 0) times[(cluster_number() * size + from) * size + to] = spent;
      }
      asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    }
  }
}

// 16 loads of each warp, at once, of lines that only L2 has. kind 0: all warps load the same lines; 1: each its own;
// 2: the same again, which L1 has now; 3: a word of each of the same lines. times: [turn][warp] cycles.
template <typename T> __device__ void pending(u32 *times, T *sink, const T *data, int kind) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  T sum = T();
  for (int turn = 0; turn < 8; turn++) {
    const T *at = data + (size_t)turn * 32 * 16 * 32 + (kind == 1 ? warp * 16 * 32 : 0) + (kind == 3 ? 0 : lane);
    // Bring the lines into L2, without L1.
    for (int k = 0; k < 16; k++) {
      u32 x;
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(at + 32 * k));
      if (x == 77) sink[0] = sum;
    }
    for (int again = 0; again < (kind == 2 ? 2 : 1); again++) {
      T value[16];
      __syncthreads();
      u32 first = now();
      #pragma unroll
      for (int k = 0; k < 16; k++) value[k] = __ldca(at + 32 * k);
      u32 all = 0;
      #pragma unroll
      for (int k = 0; k < 16; k++) all ^= *(u32 *)&value[k];
      if (all == 77) sink[threadIdx.x] = value[0];  // so that all loads are waited for
      u32 last = now();
      if (lane == 0) times[turn * warps + warp] = last - first;
    }
  }
}
extern "C" __global__ void pending_words(u32 *times, float *sink, const float *data, int kind) { pending(times, sink, data, kind); }
extern "C" __global__ void pending_fours(u32 *times, float4 *sink, const float4 *data, int kind) { pending(times, sink, data, kind); }

// A chain through a table in constant memory: each entry says where the next one is. times: [turn] cycles of all steps.
__constant__ u32 table[16384];
extern "C" __global__ void constant_chain(u32 *times, u32 *sink, int steps) {
  u32 at = 0;
  for (int turn = 0; turn < 4; turn++) {
    u32 first = now();
    #pragma unroll 1
    for (int k = 0; k < steps; k++) at = table[at];
    if (at == 99999) sink[0] = at;  // so that the last load is waited for
    u32 last = now();
    if (threadIdx.x % 32 == 0) times[turn * (blockDim.x / 32) + threadIdx.x / 32] = last - first;
  }
  sink[threadIdx.x] = at;
}
