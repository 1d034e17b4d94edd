// Seismic modelling: one time step of the acoustic wave equation in a damping layer, 8th order in space. A block of
// 8 x 8 x 8 threads brings its part of the wave field, with a rim of 4 on each side, to shared memory.
typedef long long int wide;

#define SIDE 8
#define RIM 4
#define CELL(i, j, k) (nz * ny * (i) + nz * (j) + (k))
#define FIELD(i, j, k) ((nz + 2 * lz) * (ny + 2 * ly) * ((i) + lx) + (nz + 2 * lz) * ((j) + ly) + ((k) + lz))
#define DAMP(i, j, k) ((nz + 2) * (ny + 2) * ((i) + 1) + (nz + 2) * ((j) + 1) + ((k) + 1))

// The approximate division of fast mathematics, which also takes denormal numbers as zero.
__device__ __forceinline__ float quotient(float of, float by)
{
    float result;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(of), "f"(by));
    return result;
}

extern "C" __global__ void pml_step(wide nx, wide ny, wide nz, wide x_from, wide x_to, wide y_from, wide y_to,
                                    wide z_from, wide z_to, wide lx, wide ly, wide lz,
                                    float scale_x, float scale_y, float scale_z, float c0,
                                    float cx1, float cx2, float cx3, float cx4,
                                    float cy1, float cy2, float cy3, float cy4,
                                    float cz1, float cz2, float cz3, float cz4,
                                    const float *__restrict__ now, float *__restrict__ next,
                                    const float *__restrict__ speed, float *__restrict__ memory,
                                    const float *__restrict__ damping)
{
    __shared__ float part[SIDE + 2 * RIM][SIDE + 2 * RIM][SIDE + 2 * RIM];

    const wide i_first = x_from + blockIdx.z * blockDim.z;
    const wide j_first = y_from + blockIdx.y * blockDim.y;
    const wide k_first = z_from + blockIdx.x * blockDim.x;
    const wide i = i_first + threadIdx.z;
    const wide j = j_first + threadIdx.y;
    const wide k = k_first + threadIdx.x;
    const wide a = threadIdx.z + RIM;
    const wide b = threadIdx.y + RIM;
    const wide c = threadIdx.x + RIM;

    // The rims: half of the threads fetch the near one, the others the far one; along k every thread fetches both.
    const int far_i = threadIdx.z / RIM;
    part[threadIdx.z + far_i * SIDE][b][c] = now[FIELD(i_first + threadIdx.z + (far_i * 2 - 1) * RIM, j, k)];
    const int far_j = threadIdx.y / RIM;
    part[a][threadIdx.y + far_j * SIDE][c] = now[FIELD(i, j_first + threadIdx.y + (far_j * 2 - 1) * RIM, k)];
    part[a][b][threadIdx.x] = now[FIELD(i, j, k_first + threadIdx.x - RIM)];
    part[a][b][threadIdx.x + SIDE] = now[FIELD(i, j, k_first + threadIdx.x + RIM)];

    __syncthreads();

    if (i > x_to - 1 || j > y_to - 1 || k > z_to - 1)
        return;

    const float kept = memory[CELL(i, j, k)];
    const float here = damping[DAMP(i, j, k)];
    const float above = damping[DAMP(i, j, k + 1)];
    const float below = damping[DAMP(i, j, k - 1)];

    const float centre = part[a][b][c];
    // Sums of opposite neighbours, then their weighted sum from the outermost ones inwards.
    const float x1 = __fadd_rn(part[a + 1][b][c], part[a - 1][b][c]);
    const float y1 = __fadd_rn(part[a][b + 1][c], part[a][b - 1][c]);
    const float z1 = __fadd_rn(part[a][b][c + 1], part[a][b][c - 1]);
    const float x2 = __fadd_rn(part[a + 2][b][c], part[a - 2][b][c]);
    const float y2 = __fadd_rn(part[a][b + 2][c], part[a][b - 2][c]);
    const float z2 = __fadd_rn(part[a][b][c + 2], part[a][b][c - 2]);
    const float x3 = __fadd_rn(part[a + 3][b][c], part[a - 3][b][c]);
    const float y3 = __fadd_rn(part[a][b + 3][c], part[a][b - 3][c]);
    const float z3 = __fadd_rn(part[a][b][c + 3], part[a][b][c - 3]);
    const float x4 = __fadd_rn(part[a + 4][b][c], part[a - 4][b][c]);
    const float y4 = __fadd_rn(part[a][b + 4][c], part[a][b - 4][c]);
    const float z4 = __fadd_rn(part[a][b][c + 4], part[a][b][c - 4]);
    float sum = __fmul_rn(cz4, z4);
    sum = __fmaf_rn(cy4, y4, sum);
    sum = __fmaf_rn(cx4, x4, sum);
    sum = __fmaf_rn(cz3, z3, sum);
    sum = __fmaf_rn(cy3, y3, sum);
    sum = __fmaf_rn(cx3, x3, sum);
    sum = __fmaf_rn(cz2, z2, sum);
    sum = __fmaf_rn(cy2, y2, sum);
    sum = __fmaf_rn(cx2, x2, sum);
    sum = __fmaf_rn(cz1, z1, sum);
    sum = __fmaf_rn(cy1, y1, sum);
    sum = __fmaf_rn(cx1, x1, sum);
    sum = __fmaf_rn(c0, centre, sum);

    memory[CELL(i, j, k)] = quotient(
        __fsub_rn(kept,
                  __fmaf_rn(__fmul_rn(__fsub_rn(damping[DAMP(i + 1, j, k)], damping[DAMP(i - 1, j, k)]),
                                      __fsub_rn(part[a + 1][b][c], part[a - 1][b][c])),
                            scale_x,
                            __fmaf_rn(__fmul_rn(__fsub_rn(damping[DAMP(i, j + 1, k)], damping[DAMP(i, j - 1, k)]),
                                                __fsub_rn(part[a][b + 1][c], part[a][b - 1][c])),
                                      scale_y,
                                      __fmul_rn(__fmul_rn(__fsub_rn(above, below),
                                                          __fsub_rn(part[a][b][c + 1], part[a][b][c - 1])),
                                                scale_z)))),
        __fadd_rn(1.0f, here));

    next[FIELD(i, j, k)] = quotient(
        __fmaf_rn(__fmaf_rn(2.0f, here, __fsub_rn(2.0f, __fmul_rn(here, here))), part[a][b][c],
                  __fmaf_rn(speed[CELL(i, j, k)], __fadd_rn(sum, kept), -next[FIELD(i, j, k)])),
        __fmaf_rn(2.0f, here, 1.0f));
}
