// Particle filter: moves each particle at random and weighs it by how well the pixels around it in a frame of a video
// fit the object; then the sum of the weights of each block.

__device__ double likelihood_of(unsigned char *video, int *places, int pixels, int particle)
{
    double sum = 0.0;
    int n;
    for (n = 0; n < pixels; n++)
        sum += (pow((double)(video[places[particle * pixels + n]] - 100), 2.0) -
                pow((double)(video[places[particle * pixels + n]] - 228), 2.0)) /
               50.0;
    return sum;
}

// A linear congruential generator, from 0 to 1.
__device__ double even_random(int *seeds, int particle)
{
    int modulus = 0x7fffffff;
    int factor = 1103515245;
    int addend = 12345;
    int number = factor * seeds[particle] + addend;
    seeds[particle] = number % modulus;

    return fabs(seeds[particle] / ((double)modulus));
}

// Normally distributed, by the method of Box and Muller.
__device__ double normal_random(int *seeds, int particle)
{
    double pi = 3.14159265358979323846;
    double u = even_random(seeds, particle);
    double v = even_random(seeds, particle);
    double cosine = cos(2 * pi * v);
    double root = -2 * log(u);
    return sqrt(root) * cosine;
}

// Both ways give the number without its fraction.
__device__ double without_fraction(double value)
{
    int whole = (int)(value);
    if (value - whole < .5f)
        return whole;
    else
        return whole++;
}

extern "C" __global__ void weigh(double *x, double *y, double *old_x, double *old_y, double *running, int *places,
                                 int *object, double *likelihood, unsigned char *video, double *thresholds,
                                 double *weights, int particles, int pixels, int most, int frame, int height,
                                 int frames, int *seeds, double *block_sums)
{
    int block = blockIdx.x;
    int i = blockDim.x * block + threadIdx.x;
    int n;

    int pixel_x, pixel_y;
    __shared__ double sums[512];
    if (i < particles) {
        x[i] = old_x[i];
        y[i] = old_y[i];

        weights[i] = 1 / ((double)(particles));

        x[i] = x[i] + 1.0 + 5.0 * normal_random(seeds, i);
        y[i] = y[i] - 2.0 + 2.0 * normal_random(seeds, i);
    }

    __syncthreads();

    if (i < particles) {
        for (n = 0; n < pixels; n++) {
            pixel_x = without_fraction(x[i]) + object[n * 2 + 1];
            pixel_y = without_fraction(y[i]) + object[n * 2];

            places[i * pixels + n] = abs(pixel_x * height * frames + pixel_y * frames + frame);
            if (places[i * pixels + n] >= most)
                places[i * pixels + n] = 0;
        }
        likelihood[i] = likelihood_of(video, places, pixels, i);

        likelihood[i] = likelihood[i] / pixels;

        weights[i] = weights[i] * exp(likelihood[i]);
    }

    sums[threadIdx.x] = 0.0;

    __syncthreads();

    if (i < particles) {
        sums[threadIdx.x] = weights[i];
    }

    __syncthreads();

    for (unsigned int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }

        __syncthreads();
    }
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = sums[0];
    }

    __syncthreads();
}
