// Knowledge graphs: margin loss of translation embeddings. For each fact (head, relation, tail) and a false
// tail, the distances from head plus relation to both tails are compared. A block takes a fact, a thread a
// dimension.
extern "C" __global__ void graph_margin(const float *entity, const float *relation, const int *heads,
                                        const int *relations, const int *tails, const int *false_tails,
                                        float *loss, float margin, int facts)
{
    const int dims = 128;
    __shared__ float near[dims], far[dims];
    int d = threadIdx.x;
    for (int fact = blockIdx.x; fact < facts; fact += gridDim.x) {
        float target = entity[heads[fact] * dims + d] + relation[relations[fact] * dims + d];
        float miss = target - entity[tails[fact] * dims + d];
        float wrong = target - entity[false_tails[fact] * dims + d];
        near[d] = miss * miss;
        far[d] = wrong * wrong;
        __syncthreads();
        for (int half = dims / 2; half > 0; half /= 2) {
            if (d < half) {
                near[d] += near[d + half];
                far[d] += far[d + half];
            }
            __syncthreads();
        }
        if (d == 0)
            loss[fact] = fmaxf(0.0f, margin + sqrtf(near[0]) - sqrtf(far[0]));
        __syncthreads();
    }
}
