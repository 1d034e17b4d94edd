// The matrix Q of an MRI reconstruction: for each voxel the sum over the samples of k-space of their
// magnitude times the phase factor of voxel and sample.
#define TWO_PI 6.2831853071795864769f

extern "C" __global__ void mri_q(const float4 *__restrict__ samples, const float *__restrict__ x,
                                 const float *__restrict__ y, const float *__restrict__ z,
                                 float *__restrict__ real, float *__restrict__ imaginary, int count)
{
    const int voxel = blockIdx.x * blockDim.x + threadIdx.x;
    const float vx = x[voxel];
    const float vy = y[voxel];
    const float vz = z[voxel];
    float sum_real = 0.0f;
    float sum_imaginary = 0.0f;

    for (int s = 0; s < count; s++) {
        const float4 sample = samples[s];   // three coordinates and the magnitude
        const float phase = TWO_PI * (sample.x * vx + sample.y * vy + sample.z * vz);
        sum_real += sample.w * cosf(phase);
        sum_imaginary += sample.w * sinf(phase);
    }

    real[voxel] = sum_real;
    imaginary[voxel] = sum_imaginary;
}
