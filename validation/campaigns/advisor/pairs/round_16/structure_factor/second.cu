// X-ray crystallography: structure factor of each reflection from the atoms of the cell, with isotropic
// displacement. An atom is a fractional position and an occupancy.
extern "C" __global__ void structure_factor(const int *h, const int *k, const int *l, const float4 *atoms,
                                            const float *displacement, const float *inverse_d2,
                                            float2 *factor, int reflections, int count)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= reflections)
        return;
    float hr = h[r], kr = k[r], lr = l[r];
    float quarter = -0.25f * inverse_d2[r];
    float re = 0.0f, im = 0.0f;
    for (int n = 0; n < count; n++) {
        float4 atom = atoms[n];
        float turns = hr * atom.x + kr * atom.y + lr * atom.z;
        float size = atom.w * __expf(quarter * displacement[n]);
        float s, c;
        // whole turns go first, as the fast functions are accurate near zero only
        __sincosf(6.28318531f * (turns - rintf(turns)), &s, &c);
        re += size * c;
        im += size * s;
    }
    factor[r] = make_float2(re, im);
}
