// Cooperative groups: blocks, tiles, lanes that came together, the grid, and what groups do in common.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

template <int SIZE>
__device__ void in_tiles(const int *x, int *out, int n)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<SIZE>(block);
    int at = blockIdx.x * block.size() + block.thread_rank(), v = x[at], rank = tile.thread_rank();
    out[at] = tile.shfl(v, 3);
    out[n + at] = tile.shfl_up(v, 2);
    out[2 * n + at] = tile.shfl_down(v, 1);
    out[3 * n + at] = tile.shfl_xor(v, 5);
    out[4 * n + at] = tile.any(v > 90) + 2 * tile.all(v > 5);
    out[5 * n + at] = tile.ballot(v & 1);
    out[6 * n + at] = cg::reduce(tile, v, cg::plus<int>());
    out[7 * n + at] = cg::reduce(tile, v, cg::greater<int>());
    out[8 * n + at] = tile.meta_group_rank() * 100 + tile.meta_group_size();
    out[9 * n + at] = tile.match_any(v & 3);
    out[10 * n + at] = cg::inclusive_scan(tile, v);
    out[11 * n + at] = cg::exclusive_scan(tile, v, cg::bit_xor<int>());
    __shared__ int passed[128];
    passed[block.thread_rank()] = v;
    tile.sync();
    out[12 * n + at] = passed[block.thread_rank() - rank + SIZE - 1 - rank];
}

extern "C" __global__ void tiles_32(const int *x, int *out, int n)
{
    in_tiles<32>(x, out, n);
}

extern "C" __global__ void tiles_8(const int *x, int *out, int n)
{
    in_tiles<8>(x, out, n);
}

extern "C" __global__ void votes(const int *x, int *out, int n)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = x[threadIdx.x];
    out[threadIdx.x] = tile.any(v > 90);
    out[n + threadIdx.x] = tile.all(v > 5);
    out[2 * n + threadIdx.x] = tile.ballot(v > 90);
}

// One atomic for the lanes that are there together; each takes its place.
extern "C" __global__ void compacted(const int *x, int *out, int *count, int *sums, float *least)
{
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (v % 3 != 0)
        return;
    cg::coalesced_group here = cg::coalesced_threads();
    int first = 0;
    if (here.thread_rank() == 0)
        first = atomicAdd(count, here.size());
    int place = here.shfl(first, 0) + here.thread_rank();
    out[place] = v;
    sums[place] = cg::reduce(here, v, cg::plus<int>());
    least[place] = cg::reduce(here, (float)v, cg::less<float>());
}

// Tiles cut in two by a label or a predicate, and a group within a group.
extern "C" __global__ void parted(const int *x, int *out, int n)
{
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<4>(warp);
    int at = block.group_index().x * block.size() + block.thread_rank(), v = x[at];
    auto same = cg::labeled_partition(warp, v % 5);
    out[at] = cg::reduce(same, v, cg::plus<int>());
    auto half = cg::binary_partition(warp, v > 50);
    out[n + at] = half.size() * 100 + half.thread_rank();
    out[2 * n + at] = tile.shfl(v, 0);
    auto run_time = cg::tiled_partition(block, 16);
    out[3 * n + at] = run_time.thread_rank();
    cg::grid_group grid = cg::this_grid();
    out[4 * n + at] = grid.thread_rank() * 1000 + grid.size();
}

// By all threads of a block; float sums of a tile go from lane to lane.
extern "C" __global__ void block_sums(const float *x, float *out)
{
    __shared__ float of_warps[4];
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    float sum = cg::reduce(warp, x[cg::this_grid().thread_rank()], cg::plus<float>());
    if (warp.thread_rank() == 0)
        of_warps[warp.meta_group_rank()] = sum;
    block.sync();
    cg::invoke_one(block, [&] { out[blockIdx.x] = of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3]; });
}

// A block's tile of more than a warp.
extern "C" __global__ void wide_tiles(const int *x, int *out)
{
    __shared__ cg::block_tile_memory<128> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    int at = blockIdx.x * 128 + block.thread_rank();
    out[at] = cg::reduce(tile, x[at], cg::plus<int>());
}

extern "C" __global__ void whole_grid(int *x, int *y)
{
    cg::grid_group grid = cg::this_grid();
    int rank = grid.thread_rank();
    x[rank] = rank;
    for (int round = 0; round < 3; round++) {
        grid.sync();
        y[rank] = x[(rank + 64) % grid.size()];
        grid.sync();
        x[rank] = y[rank] + 1;
    }
}
