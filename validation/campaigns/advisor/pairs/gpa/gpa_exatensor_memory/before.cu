// Tensor transposition: a block copies one tile of the input (the first three dimensions) to shared memory and writes
// it to the output in the order of the new dimensions. Offsets come from digits of the tile's and the element's number.
extern "C" __global__ void tensor_transpose(int outer_dims, int inner_dims, int tiles, int tile_elements,
                                            int *outer_size, int *inner_size,
                                            float *outer_reciprocal, float *inner_reciprocal,
                                            int *outer_stride, int *tile_stride, int *inner_stride,
                                            double *from, double *to)
{
    __shared__ double staged[4700];

    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        int rest = t, quotient = 0, base = 0;
        for (int d = 0; d < outer_dims; d++) {
            quotient = rest * outer_reciprocal[d];
            base += outer_stride[d] * (rest - quotient * outer_size[d]);
            rest = quotient;
        }

        for (int e = threadIdx.x; e < tile_elements; e += blockDim.x) {
            staged[e] = from[e + t * tile_elements];
        }

        __syncthreads();

        for (int e = threadIdx.x; e < tile_elements; e += blockDim.x) {
            rest = e;
            int target = 0, source = 0;
            for (int d = 0; d < inner_dims; d++) {
                quotient = rest * inner_reciprocal[d];
                int digit = rest - quotient * inner_size[d];
                target += inner_stride[d] * digit;
                source += tile_stride[d] * digit;
                rest = quotient;
            }
            to[base + target] = staged[source];
        }

        __syncthreads();
    }
}
