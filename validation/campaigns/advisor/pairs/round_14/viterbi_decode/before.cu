// Radio: soft-decision Viterbi decoder of the rate 1/2 code of constraint length 7; a frame per block.
#define STATES 64
#define STEPS 96

extern "C" __global__ void viterbi_decode(const float2 *soft_bits, unsigned char *decoded)
{
    __shared__ float metric[2][STATES];
    __shared__ int survivor[STEPS][STATES];
    int state = threadIdx.x;
    int early = (state << 1) & (STATES - 1);
    int register_bits = (state >> 5) << 6 | early;
    float sign0 = __popc(register_bits & 0x6d) & 1 ? -1.0f : 1.0f;
    float sign1 = __popc(register_bits & 0x4f) & 1 ? -1.0f : 1.0f;
    metric[0][state] = state == 0 ? 0.0f : -1e6f;
    __syncthreads();
    for (int t = 0; t < STEPS; t++) {
        float2 soft = soft_bits[blockIdx.x * STEPS + t];
        float branch = sign0 * soft.x + sign1 * soft.y;
        float stay = metric[t & 1][early] + branch;
        float flip = metric[t & 1][early | 1] - branch;
        survivor[t][state] = flip > stay ? early | 1 : early;
        metric[(t + 1) & 1][state] = fmaxf(stay, flip);
        __syncthreads();
    }
    if (state == 0) {
        int at = 0;
        for (int t = STEPS - 1; t >= 0; t--) {
            decoded[blockIdx.x * STEPS + t] = at >> 5;
            at = survivor[t][at];
        }
    }
}
