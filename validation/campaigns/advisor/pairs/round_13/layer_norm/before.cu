// Layer normalisation: one block for each row, any number of threads that is a multiple of 32.
__device__ float block_sum(float value)
{
    __shared__ float partial[32];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;

    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();

    value = lane < blockDim.x >> 5 ? partial[lane] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads();
    return value;
}

extern "C" __global__ void layer_norm(const float *__restrict__ in, const float *__restrict__ gain,
                                      const float *__restrict__ shift, float *__restrict__ out, int width,
                                      float epsilon)
{
    const float *from = in + blockIdx.x * width;
    float *to = out + blockIdx.x * width;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        sum += from[i];
    const float mean = block_sum(sum) / width;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const float difference = from[i] - mean;
        squares += difference * difference;
    }
    const float scale = rsqrtf(block_sum(squares) / width + epsilon);

    for (int i = threadIdx.x; i < width; i += blockDim.x)
        to[i] = (from[i] - mean) * scale * gain[i] + shift[i];
}
