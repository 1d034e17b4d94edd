// Knowledge graphs: margin loss of translation embeddings. For each fact (head, relation, tail) and a false
// tail, the distances from head plus relation to both tails are compared. A block takes a fact, a thread a
// dimension.
extern "C" __global__ void graph_margin(const float *entity, const float *relation, const int *heads,
                                        const int *relations, const int *tails, const int *false_tails,
                                        float *loss, float margin, int facts)
{
    const int dims = 128, warps = dims / 32;
    __shared__ float near[warps], far[warps];
    int d = threadIdx.x;
    for (int fact = blockIdx.x; fact < facts; fact += gridDim.x) {
        float target = entity[heads[fact] * dims + d] + relation[relations[fact] * dims + d];
        float miss = target - entity[tails[fact] * dims + d];
        float wrong = target - entity[false_tails[fact] * dims + d];
        float near_sum = miss * miss, far_sum = wrong * wrong;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            near_sum += __shfl_down_sync(0xffffffffu, near_sum, offset);
            far_sum += __shfl_down_sync(0xffffffffu, far_sum, offset);
        }
        if ((d & 31) == 0) {
            near[d >> 5] = near_sum;
            far[d >> 5] = far_sum;
        }
        __syncthreads();
        if (d == 0) {
            for (int w = 1; w < warps; w++) {
                near_sum += near[w];
                far_sum += far[w];
            }
            loss[fact] = fmaxf(0.0f, margin + sqrtf(near_sum) - sqrtf(far_sum));
        }
        __syncthreads();
    }
}
