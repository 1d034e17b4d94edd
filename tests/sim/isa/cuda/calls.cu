// Calls that a compiler cannot resolve: by a table of functions, by a class's virtual functions, into itself,
// and into CUDA's runtime on the device.
#include <assert.h>
#include <stdio.h>

typedef float (*Operation)(float, float);

__device__ __noinline__ float add(float a, float b) { return a + b; }
__device__ __noinline__ float multiply(float a, float b) { return a * b; }
__device__ __noinline__ float power(float a, float b) { return powf(a, b); }
__device__ Operation operations[3] = {add, multiply, power};
__device__ int counters[4] = {1, 2, 3, 4};
__device__ int *second = &counters[2];

extern "C" __global__ void by_table(const int *which, const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = operations[which[i]](x[i], 1.5f) + *second;
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};

struct Square : Shape {
    float side;
    __device__ explicit Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};

struct Disc : Shape {
    float radius;
    __device__ explicit Disc(float r) : radius(r) {}
    __device__ float area() const override { return 3.0f * radius * radius; }
};

extern "C" __global__ void by_class(const int *which, const float *x, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Square square(x[i]);
    Disc disc(x[i]);
    const Shape *shape = which[i] ? static_cast<const Shape *>(&square) : &disc;
    out[i] = shape->area();
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void into_itself(const int *which, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = fibonacci(3 * which[i]);
}

extern "C" __global__ void telling(const int *which, int *out, int limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 5) printf("thread %d has %d\n", i, which[i]);
    assert(which[i] < limit);
    out[i] = which[i] + 1;
}
