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
    double ka = absorption[draw];
    double k10 = clearance[draw] / central[draw];
    double k12 = exchange[draw] / central[draw];
    double k21 = exchange[draw] / peripheral[draw];
    double sum = k10 + k12 + k21;
    double root = sqrt(sum * sum - 4.0 * k10 * k21);
    double alpha = 0.5 * (sum + root);
    double beta = k10 * k21 / alpha;
    double scale = dose[patient] * ka / central[draw];
    double a = scale * (k21 - alpha) / ((ka - alpha) * (beta - alpha));
    double b = scale * (k21 - beta) / ((ka - beta) * (alpha - beta));
    double total = 0.0;
    for (int s = 0; s < samples; s++) {
        double t = hours[patient * samples + s];
        double gut = exp(-ka * t);
        double expected = a * (exp(-alpha * t) - gut) + b * (exp(-beta * t) - gut);
        expected = fmax(expected, 1e-4);
        double spread = sigma * (0.1 + expected);
        double z = (level[patient * samples + s] - expected) / spread;
        total -= 0.5 * z * z + log(spread);
    }
    loglik[patient * draws + draw] = total;
}
