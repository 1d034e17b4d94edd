// What public benchmarks time of a B200: a product in tensor memory and the wait for it, many products and one wait,
// loads and stores of tensor memory, and copies by a tensor map from DRAM.
// N: columns, registers or bytes. M: rows. MANY: products, accesses a round, or copies on their way. FIRST_IN_MEMORY:
// the first matrix lies in tensor memory.
#ifndef M
#define M 128
#endif
#ifndef N
#define N 64
#endif
#ifndef MANY
#define MANY 1
#endif
#ifndef FIRST_IN_MEMORY
#define FIRST_IN_MEMORY 0
#endif
typedef unsigned int u32;
typedef unsigned long long u64;
struct __align__(64) Map { u64 words[16]; };

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void wait(u32 barrier, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

// Pieces of 16 bytes lie one behind the other: eight rows, then the other half of their 32 bytes.
__device__ u64 matrix(u32 address) { return (u64)(address >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32 | 1ull << 46; }

extern "C" __global__ void products(u64* cycles, int rounds) {
    extern __shared__ __align__(1024) unsigned char image[];
    __shared__ u64 barrier;
    __shared__ u32 columns;
    u32 bar = shared_address(&barrier), s = shared_address(image);
    for (int i = threadIdx.x; i < (128 + N) * 8; i += blockDim.x) ((int*)image)[i] = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(shared_address(&columns)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    u32 d = columns, lead = 0, parity = 0, described = 1u << 4 | 1u << 7 | 1u << 10 | (u32)(N >> 3) << 17 | (u32)(M >> 4) << 24;
    u64 a = matrix(s), b = matrix(s + 4096);
    if (threadIdx.x < 32) asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(lead));
    if (lead)
        for (int round = 0; round < rounds; ++round) {
            u64 begin, end;
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin) :: "memory");
#pragma unroll
            for (int i = 0; i < MANY; ++i) {
#if FIRST_IN_MEMORY
                asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, 1;" :: "r"(d), "r"(d + 256), "l"(b), "r"(described) : "memory");
#else
                asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, 1;" :: "r"(d), "l"(a), "l"(b), "r"(described) : "memory");
#endif
            }
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%0];" :: "r"(bar) : "memory");
            wait(bar, parity);
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) :: "memory");
            parity ^= 1;
            cycles[round] = end - begin;
        }
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(d) : "memory");
}

template <int REGISTERS> __device__ u32 load(u32 place);
template <int REGISTERS> __device__ void store(u32 place, const u32* r);
#define ACCESSES(n, form, outs, ins, list) \
    template <> __device__ u32 load<n>(u32 place) { \
        u32 r[n]; \
        asm volatile("tcgen05.ld.sync.aligned.32x32b." form ".b32 {" list "}, [%" #n "];" : outs : "r"(place) : "memory"); \
        return r[0]; \
    } \
    template <> __device__ void store<n>(u32 place, const u32* r) { \
        asm volatile("tcgen05.st.sync.aligned.32x32b." form ".b32 [%" #n "], {" list "};" :: ins, "r"(place) : "memory"); \
    }
#define O2(i) "=r"(r[i]), "=r"(r[i + 1])
#define I2(i) "r"(r[i]), "r"(r[i + 1])
#define O4(i) O2(i), O2(i + 2)
#define I4(i) I2(i), I2(i + 2)
#define O8(i) O4(i), O4(i + 4)
#define I8(i) I4(i), I4(i + 4)
ACCESSES(1, "x1", "=r"(r[0]), "r"(r[0]), "%0")
ACCESSES(2, "x2", O2(0), I2(0), "%0,%1")
ACCESSES(4, "x4", O4(0), I4(0), "%0,%1,%2,%3")
ACCESSES(8, "x8", O8(0), I8(0), "%0,%1,%2,%3,%4,%5,%6,%7")
#define O16 O8(0), O8(8)
#define I16 I8(0), I8(8)
ACCESSES(16, "x16", O16, I16, "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15")

template <bool STORES> __device__ void accesses(u64* cycles, int rounds) {
    constexpr int REGISTERS = N > 16 ? 16 : N;
    __shared__ u32 columns;
    if (threadIdx.x < 32)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" :: "r"(shared_address(&columns)) : "memory");
    __syncthreads();
    u32 place = columns, sum = 0, r[16];
    for (int i = 0; i < 16; ++i) r[i] = threadIdx.x + i;
    __syncthreads();
    u64 begin, end;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin) :: "memory");
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int i = 0; i < MANY; ++i) {
            if (STORES) store<REGISTERS>(place + i * REGISTERS, r);
            else sum ^= load<REGISTERS>(place + i * REGISTERS);
        }
        if (STORES) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
        else asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    }
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) :: "memory");
    if (threadIdx.x == 0) cycles[0] = end - begin, cycles[1] = sum;
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(place) : "memory");
}

extern "C" __global__ void loads(u64* cycles, int rounds) { accesses<false>(cycles, rounds); }
extern "C" __global__ void stores(u64* cycles, int rounds) { accesses<true>(cycles, rounds); }

// Each SM reads boxes of N bytes, rows of 512, MANY of them at once; no byte twice.
extern "C" __global__ void copies(const __grid_constant__ Map map, u64* cycles, int rounds) {
    extern __shared__ __align__(1024) unsigned char image[];
    __shared__ u64 barriers[MANY];
    u32 bar = shared_address(barriers), s = shared_address(image);
    if (threadIdx.x != 0) return;
    for (int i = 0; i < MANY; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    u64 begin = clock64();
    auto issue = [&](int round) {
        u32 own = bar + 8 * (round % MANY);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(own), "r"(N) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            :: "r"(s + round % MANY * N), "l"(&map), "r"(0), "r"((round * (int)gridDim.x + (int)blockIdx.x) * (N / 512)), "r"(own) : "memory");
    };
    for (int i = 0; i < MANY && i < rounds; ++i) issue(i);
    for (int i = 0; i < rounds; ++i) {
        wait(bar + 8 * (i % MANY), i / MANY & 1);
        if (i + MANY < rounds) issue(i + MANY);
    }
    cycles[blockIdx.x] = clock64() - begin;
}
