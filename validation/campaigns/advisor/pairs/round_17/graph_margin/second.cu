// Knowledge graphs: margin loss of translation embeddings. For each fact (head, relation, tail) and a false
// tail, the distances from head plus relation to both tails are compared. A block takes a fact, a thread a
// dimension.
extern "C" __global__ void graph_margin(const float *entity, const float *relation, const int *heads,
                                        const int *relations, const int *tails, const int *false_tails,
                                        float *loss, float margin, int facts)
{
    const int dims = 128;
    // A warp takes a fact, a lane every 32nd dimension: the sums need shuffles only, no barrier.
    int lane = threadIdx.x & 31;
    int warps = blockDim.x >> 5;
    for (int fact = blockIdx.x * warps + (threadIdx.x >> 5); fact < facts; fact += gridDim.x * warps) {
        const float *head = entity + heads[fact] * dims;
        const float *shift = relation + relations[fact] * dims;
        const float *tail = entity + tails[fact] * dims;
        const float *other = entity + false_tails[fact] * dims;
        float near = 0.0f, far = 0.0f;
#pragma unroll
        for (int d = lane; d < dims; d += 32) {
            float target = head[d] + shift[d];
            float miss = target - tail[d];
            float wrong = target - other[d];
            near += miss * miss;
            far += wrong * wrong;
        }
#pragma unroll
        for (int half = 16; half > 0; half /= 2) {
            near += __shfl_down_sync(0xffffffffu, near, half);
            far += __shfl_down_sync(0xffffffffu, far, half);
        }
        if (lane == 0)
            loss[fact] = fmaxf(0.0f, margin + sqrtf(near) - sqrtf(far));
    }
}
