// Pulse-Doppler radar: tapers every pulse, takes out the platform's motion as a phase, and turns the data
// cube so that the pulses of one range gate lie side by side for the Doppler transform. A block turns its 32
// by 32 tile in shared memory, so that both loads and stores go along the arrays' rows.
extern "C" __global__ void corner_turn(const float2 *echoes, const float *taper, const float2 *motion,
                                       float2 *turned, int pulses, int gates)
{
    __shared__ float2 tile[32][33];
    int gate = blockIdx.x * 32 + threadIdx.x;
    for (int row = threadIdx.y; row < 32; row += blockDim.y) {
        int pulse = blockIdx.y * 32 + row;
        if (gate >= gates || pulse >= pulses)
            break;
        float2 echo = echoes[pulse * gates + gate];
        float2 turn = motion[pulse];
        float weight = taper[pulse];
        float2 result;
        result.x = weight * (echo.x * turn.x - echo.y * turn.y);
        result.y = weight * (echo.x * turn.y + echo.y * turn.x);
        tile[row][threadIdx.x] = result;
    }
    __syncthreads();
    int pulse = blockIdx.y * 32 + threadIdx.x;
    if (pulse >= pulses)
        return;
    for (int row = threadIdx.y; row < 32; row += blockDim.y) {
        int out = blockIdx.x * 32 + row;
        if (out >= gates)
            break;
        turned[out * pulses + pulse] = tile[threadIdx.x][row];
    }
}
