// Compressible flow around a wing on an unstructured mesh: the fluxes of density, momentum and energy into every
// element through its four faces. A face leads to a neighbour, or it is of the wing (-1) or the far field (-2).
#define GAMMA 1.4f
#define FACES 4
#define DENSITY 0
#define MOMENTUM 1
#define ENERGY 4

__constant__ float far_variable[5];
__constant__ float3 far_momentum_x[1];
__constant__ float3 far_momentum_y[1];
__constant__ float3 far_momentum_z[1];
__constant__ float3 far_energy[1];

__device__ inline float divide(float a, float b)
{
    return a / b;
}

__device__ inline float root(float a)
{
    return sqrtf(a);
}

__device__ inline void velocity_of(float density, const float3 &momentum, float3 &velocity)
{
    velocity.x = divide(momentum.x, density);
    velocity.y = divide(momentum.y, density);
    velocity.z = divide(momentum.z, density);
}

__device__ inline float squared(const float3 &v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z;
}

__device__ inline float pressure_of(float density, float energy, float speed2)
{
    return (GAMMA - 1.0f) * (energy - 0.5f * density * speed2);
}

__device__ inline float sound_of(float density, float pressure)
{
    return root(divide(GAMMA * pressure, density));
}

__device__ inline void contribution(const float3 &momentum, float energy, float pressure, const float3 &velocity,
                                    float3 &mx, float3 &my, float3 &mz, float3 &e)
{
    mx.x = velocity.x * momentum.x + pressure;
    mx.y = velocity.x * momentum.y;
    mx.z = velocity.x * momentum.z;
    my.x = mx.y;
    my.y = velocity.y * momentum.y + pressure;
    my.z = velocity.y * momentum.z;
    mz.x = mx.z;
    mz.y = my.z;
    mz.z = velocity.z * momentum.z + pressure;
    float both = energy + pressure;
    e.x = velocity.x * both;
    e.y = velocity.y * both;
    e.z = velocity.z * both;
}

extern "C" __global__ void cuda_compute_flux(int count, int *neighbour_of, float *normals, float *variables,
                                             float *fluxes)
{
    const float smoothing = 0.2f;
    const int i = blockDim.x * blockIdx.x + threadIdx.x;

    float density = variables[i + DENSITY * count];
    float3 momentum;
    momentum.x = variables[i + (MOMENTUM + 0) * count];
    momentum.y = variables[i + (MOMENTUM + 1) * count];
    momentum.z = variables[i + (MOMENTUM + 2) * count];
    float energy = variables[i + ENERGY * count];

    float3 velocity;
    velocity_of(density, momentum, velocity);
    float speed2 = squared(velocity);
    float speed = root(speed2);
    float pressure = pressure_of(density, energy, speed2);
    float sound = sound_of(density, pressure);
    float3 mx, my, mz, e;
    contribution(momentum, energy, pressure, velocity, mx, my, mz, e);

    float flux_density = 0.0f;
    float3 flux_momentum;
    flux_momentum.x = 0.0f;
    flux_momentum.y = 0.0f;
    flux_momentum.z = 0.0f;
    float flux_energy = 0.0f;

#pragma unroll
    for (int j = 0; j < FACES; j++) {
        int other = neighbour_of[i + j * count];
        float3 normal;
        normal.x = normals[i + (j + 0 * FACES) * count];
        normal.y = normals[i + (j + 1 * FACES) * count];
        normal.z = normals[i + (j + 2 * FACES) * count];
        float area = root(normal.x * normal.x + normal.y * normal.y + normal.z * normal.z);
        float factor;

        if (other >= 0) {
            float density_n = variables[other + DENSITY * count];
            float3 momentum_n;
            momentum_n.x = variables[other + (MOMENTUM + 0) * count];
            momentum_n.y = variables[other + (MOMENTUM + 1) * count];
            momentum_n.z = variables[other + (MOMENTUM + 2) * count];
            float energy_n = variables[other + ENERGY * count];
            float3 velocity_n;
            velocity_of(density_n, momentum_n, velocity_n);
            float speed2_n = squared(velocity_n);
            float pressure_n = pressure_of(density_n, energy_n, speed2_n);
            float sound_n = sound_of(density_n, pressure_n);
            float3 mx_n, my_n, mz_n, e_n;
            contribution(momentum_n, energy_n, pressure_n, velocity_n, mx_n, my_n, mz_n, e_n);

            // Artificial viscosity.
            factor = -area * smoothing * 0.5f * (speed + root(speed2_n) + sound + sound_n);
            flux_density += factor * (density - density_n);
            flux_energy += factor * (energy - energy_n);
            flux_momentum.x += factor * (momentum.x - momentum_n.x);
            flux_momentum.y += factor * (momentum.y - momentum_n.y);
            flux_momentum.z += factor * (momentum.z - momentum_n.z);

            // The mean of both elements' fluxes, by direction.
            factor = 0.5f * normal.x;
            flux_density += factor * (momentum_n.x + momentum.x);
            flux_energy += factor * (e_n.x + e.x);
            flux_momentum.x += factor * (mx_n.x + mx.x);
            flux_momentum.y += factor * (my_n.x + my.x);
            flux_momentum.z += factor * (mz_n.x + mz.x);

            factor = 0.5f * normal.y;
            flux_density += factor * (momentum_n.y + momentum.y);
            flux_energy += factor * (e_n.y + e.y);
            flux_momentum.x += factor * (mx_n.y + mx.y);
            flux_momentum.y += factor * (my_n.y + my.y);
            flux_momentum.z += factor * (mz_n.y + mz.y);

            factor = 0.5f * normal.z;
            flux_density += factor * (momentum_n.z + momentum.z);
            flux_energy += factor * (e_n.z + e.z);
            flux_momentum.x += factor * (mx_n.z + mx.z);
            flux_momentum.y += factor * (my_n.z + my.z);
            flux_momentum.z += factor * (mz_n.z + mz.z);
        } else if (other == -1) {
            flux_momentum.x += normal.x * pressure;
            flux_momentum.y += normal.y * pressure;
            flux_momentum.z += normal.z * pressure;
        } else if (other == -2) {
            factor = 0.5f * normal.x;
            flux_density += factor * (far_variable[MOMENTUM + 0] + momentum.x);
            flux_energy += factor * (far_energy[0].x + e.x);
            flux_momentum.x += factor * (far_momentum_x[0].x + mx.x);
            flux_momentum.y += factor * (far_momentum_y[0].x + my.x);
            flux_momentum.z += factor * (far_momentum_z[0].x + mz.x);

            factor = 0.5f * normal.y;
            flux_density += factor * (far_variable[MOMENTUM + 1] + momentum.y);
            flux_energy += factor * (far_energy[0].y + e.y);
            flux_momentum.x += factor * (far_momentum_x[0].y + mx.y);
            flux_momentum.y += factor * (far_momentum_y[0].y + my.y);
            flux_momentum.z += factor * (far_momentum_z[0].y + mz.y);

            factor = 0.5f * normal.z;
            flux_density += factor * (far_variable[MOMENTUM + 2] + momentum.z);
            flux_energy += factor * (far_energy[0].z + e.z);
            flux_momentum.x += factor * (far_momentum_x[0].z + mx.z);
            flux_momentum.y += factor * (far_momentum_y[0].z + my.z);
            flux_momentum.z += factor * (far_momentum_z[0].z + mz.z);
        }
    }

    fluxes[i + DENSITY * count] = flux_density;
    fluxes[i + (MOMENTUM + 0) * count] = flux_momentum.x;
    fluxes[i + (MOMENTUM + 1) * count] = flux_momentum.y;
    fluxes[i + (MOMENTUM + 2) * count] = flux_momentum.z;
    fluxes[i + ENERGY * count] = flux_energy;
}
