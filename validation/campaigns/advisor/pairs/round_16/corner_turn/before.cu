// Pulse-Doppler radar: tapers every pulse, takes out the platform's motion as a phase, and turns the data
// cube so that the pulses of one range gate lie side by side for the Doppler transform.
extern "C" __global__ void corner_turn(const float2 *echoes, const float *taper, const float2 *motion,
                                       float2 *turned, int pulses, int gates)
{
    int gate = blockIdx.x * 32 + threadIdx.x;
    if (gate >= gates)
        return;
    for (int row = threadIdx.y; row < 32; row += blockDim.y) {
        int pulse = blockIdx.y * 32 + row;
        if (pulse >= pulses)
            break;
        float2 echo = echoes[pulse * gates + gate];
        float2 turn = motion[pulse];
        float weight = taper[pulse];
        float2 result;
        result.x = weight * (echo.x * turn.x - echo.y * turn.y);
        result.y = weight * (echo.x * turn.y + echo.y * turn.x);
        turned[gate * pulses + pulse] = result;
    }
}
