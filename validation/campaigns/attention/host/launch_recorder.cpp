// In place of CUDA's run-time library: a program's launch of a kernel is printed, and nothing is launched.
//
// Lines on standard output: `kernel NAME`, `grid X Y Z`, `block X Y Z`, `cluster X Y Z`, `shared BYTES`,
// `map NUMBER ARRAY SWIZZLE SIZES / STRIDES / BOX`, and the parameter's bytes, as many as the environment's
// PARAMETER_BYTES says, in hexadecimal. A tensor map's bytes are its number behind eight letters.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

// Kernels are told before the objects of this file are made, so the table is made when it is first asked for.
static std::map<const void *, const char *> &names() {
    static std::map<const void *, const char *> table;
    return table;
}
static dim3 the_grid, the_block;
static size_t the_shared;

static CUresult encode(CUtensorMap *map, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *sizes,
                       const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *, CUtensorMapInterleave,
                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    static unsigned long long number;
    std::memset(map, 0, sizeof *map);
    std::memcpy(map, "RECORDED", 8);
    std::memcpy(reinterpret_cast<char *>(map) + 8, &number, 8);
    static const char *const spans[] = {"none", "32", "64", "128"};
    std::printf("map %llu %llu %s", number++, reinterpret_cast<unsigned long long>(address), spans[swizzle]);
    for (cuuint32_t n = 0; n < rank; n++) std::printf(" %llu", static_cast<unsigned long long>(sizes[n]));
    std::printf(" /");
    for (cuuint32_t n = 0; n + 1 < rank; n++) std::printf(" %llu", static_cast<unsigned long long>(strides[n]));
    std::printf(" /");
    for (cuuint32_t n = 0; n < rank; n++) std::printf(" %u", box[n]);
    std::printf("\n");
    return CUDA_SUCCESS;
}

static cudaError_t launched(const char *name, dim3 grid, dim3 block, dim3 cluster, size_t shared, void **given) {
    std::printf("kernel %s\ngrid %u %u %u\nblock %u %u %u\n", name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
    std::printf("cluster %u %u %u\nshared %zu\nbytes ", cluster.x, cluster.y, cluster.z, shared);
    const char *size = std::getenv("PARAMETER_BYTES");
    for (int n = 0; n < (size ? std::atoi(size) : 0); n++)
        std::printf("%02x", static_cast<const unsigned char *>(given[0])[n]);
    std::printf("\n");
    return cudaSuccess;
}

extern "C" {
void **__cudaRegisterFatBinary(void *) {
    static void *handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
void __cudaRegisterFunction(void **, const char *function, char *, const char *name, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *) {
    names()[function] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st *) {
    the_grid = grid, the_block = block, the_shared = shared;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = the_grid, *block = the_block, *shared = the_shared, *static_cast<void **>(stream) = nullptr;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void *>(function));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **given, size_t shared,
                               cudaStream_t) {
    return launched(names()[reinterpret_cast<void *>(kernel)], grid, block, dim3(1, 1, 1), shared, given);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *asked, const void *function, void **given) {
    dim3 cluster(1, 1, 1);
    for (unsigned n = 0; n < asked->numAttrs; n++)
        if (asked->attrs[n].id == cudaLaunchAttributeClusterDimension) {
            const auto &size = asked->attrs[n].val.clusterDim;
            cluster = dim3(size.x, size.y, size.z);
        }
    return launched(names()[function], asked->gridDim, asked->blockDim, cluster, asked->dynamicSmemBytes, given);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *found) {
    *function = reinterpret_cast<void *>(encode);
    if (found) *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr asked, int) {
    *value = asked == cudaDevAttrMultiProcessorCount ? 132 : asked == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return ""; }
}
