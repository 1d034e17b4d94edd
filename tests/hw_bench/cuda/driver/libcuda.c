/* A stand-in for the CUDA driver: the functions that Numba, cuda-core and cuda-bindings need for kernels, copies, streams and
   events, in their newest form. One that is not here is not found, and its caller says so. */
#define _GNU_SOURCE
#define CLOSED 4 /* CUDA_ERROR_DEINITIALIZED */
#include "forward.h"
#include <dlfcn.h>

F1(cuInit, U)
F1(cuDriverGetVersion, P)
F2(cuGetErrorName, I, P)
F2(cuGetErrorString, I, P)
F2(cuDeviceGet, P, I)
F1(cuDeviceGetCount, P)
F3(cuDeviceGetName, P, I, I)
F2(cuDeviceGetUuid, P, I)
F2(cuDeviceTotalMem, P, I)
F3(cuDeviceGetAttribute, P, I, I)
F2(cuDevicePrimaryCtxRetain, P, I)
F1(cuDevicePrimaryCtxRelease, I)
F1(cuDevicePrimaryCtxReset, I)
F1(cuCtxPushCurrent, P)
F1(cuCtxPopCurrent, P)
F1(cuCtxSetCurrent, P)
F1(cuCtxGetCurrent, P)
F1(cuCtxGetDevice, P)
F0(cuCtxSynchronize)
F1(cuStreamSynchronize, P)
F2(cuStreamGetCtx, P, P)
F8(cuLibraryLoadData, P, P, P, P, U, P, P, U)
F1(cuLibraryUnload, P)
F3(cuLibraryGetKernel, P, P, P)
F2(cuKernelGetFunction, P, P)
F2(cuKernelGetLibrary, P, P)
F4(cuKernelGetAttribute, P, I, P, I)
F4(cuKernelSetAttribute, I, I, P, I)
F4(cuKernelGetParamInfo, P, size_t, P, P)
F4(cuLaunchKernelEx, P, P, P, P)
F2(cuMemAlloc, P, size_t)
F1(cuMemFree, P)
F2(cuMemGetInfo, P, P)
F3(cuMemHostAlloc, P, size_t, U)
F1(cuMemFreeHost, P)
F3(cuMemHostGetDevicePointer, P, P, U)
F3(cuPointerGetAttribute, P, I, P)
F3(cuMemcpyHtoD, P, P, size_t)
F3(cuMemcpyDtoH, P, P, size_t)
F4(cuMemcpyHtoDAsync, P, P, size_t, P)
F4(cuMemcpyDtoHAsync, P, P, size_t, P)
F2(cuEventCreate, P, U)
F1(cuEventDestroy, P)
F2(cuEventRecord, P, P)
F1(cuEventSynchronize, P)
F1(cuEventQuery, P)
F3(cuEventElapsedTime, P, P, P)

int cuGetProcAddress_v2(const char *symbol, void **function, int version, word flags, int *status)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *function = library ? dlsym(library, symbol) : NULL;
    if (status)
        *status = *function ? 0 : 1;
    return *function ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

/* Asked for by name through the function above, in its newest form. */
int cuGetProcAddress(const char *symbol, void **function, int version, word flags, int *status)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, status);
}
