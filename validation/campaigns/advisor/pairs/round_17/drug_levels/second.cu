// Pharmacokinetics: log-likelihood of each patient's blood samples under draws of the parameters of a model
// with oral absorption and two compartments. A thread takes one draw for one patient.
extern "C" __global__ void drug_levels(const float *absorption, const float *clearance,
                                       const float *central, const float *exchange, const float *peripheral,
                                       const float *dose, const float *hours, const float *level,
                                       float *loglik, float sigma, int draws, int patients, int samples)
{
    int draw = blockIdx.x * blockDim.x + threadIdx.x;
    int patient = blockIdx.y;
    if (draw >= draws)
        return;
    float ka = absorption[draw];
    float k10 = clearance[draw] / central[draw];
    float k12 = exchange[draw] / central[draw];
    float k21 = exchange[draw] / peripheral[draw];
    float sum = k10 + k12 + k21;
    float root = sqrtf(sum * sum - 4.0f * k10 * k21);
    float alpha = 0.5f * (sum + root);
    float beta = k10 * k21 / alpha;
    float scale = dose[patient] * ka / central[draw];
    float a = scale * (k21 - alpha) / ((ka - alpha) * (beta - alpha));
    float b = scale * (k21 - beta) / ((ka - beta) * (alpha - beta));
    float total = 0.0f;
    for (int s = 0; s < samples; s++) {
        float t = hours[patient * samples + s];
        float gut = expf(-ka * t);
        float expected = a * (expf(-alpha * t) - gut) + b * (expf(-beta * t) - gut);
        expected = fmaxf(expected, 1e-4f);
        float spread = sigma * (0.1f + expected);
        float z = (level[patient * samples + s] - expected) / spread;
        total -= 0.5f * z * z + logf(spread);
    }
    loglik[patient * draws + draw] = total;
}
