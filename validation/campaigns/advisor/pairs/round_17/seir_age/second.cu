// Epidemiology: course of an epidemic in four age groups (susceptible, exposed, infectious, recovered) for
// many draws of the parameters; the infectious of each group are recorded after every step.
extern "C" __global__ void seir_age(const float *__restrict__ contact, const float *__restrict__ population,
                                    const float *__restrict__ susceptibility, const float *__restrict__ transmission,
                                    const float *__restrict__ incubation, const float *__restrict__ recovery, float *__restrict__ infectious,
                                    float *__restrict__ attack, float step, int steps, int draws)
{
    int draw = blockIdx.x * blockDim.x + threadIdx.x;
    if (draw >= draws)
        return;
    float s[4], e[4], i[4];
    for (int g = 0; g < 4; g++) {
        s[g] = population[g] * 0.999f;
        e[g] = 0.0f;
        i[g] = population[g] * 0.001f;
    }
    for (int t = 0; t < steps; t++) {
        float fraction[4];
#pragma unroll
        for (int g = 0; g < 4; g++)
            fraction[g] = i[g] / population[g];
#pragma unroll
        for (int g = 0; g < 4; g++) {
            float force = 0.0f;
#pragma unroll
            for (int h = 0; h < 4; h++)
                force += contact[g * 4 + h] * fraction[h];
            force *= transmission[draw] * susceptibility[g];
            float infected = s[g] * fminf(force * step, 1.0f);
            float onset = e[g] * incubation[draw] * step;
            float healed = i[g] * recovery[draw] * step;
            s[g] -= infected;
            e[g] += infected - onset;
            i[g] += onset - healed;
            infectious[(t * 4 + g) * draws + draw] = i[g];
        }
    }
    for (int g = 0; g < 4; g++)
        attack[g * draws + draw] = 1.0f - s[g] / population[g];
}
