// Coastal flooding: one Lax-Friedrichs step of the shallow-water equations.
extern "C" __global__ void shallow_water(const float *h, const float *hu, const float *hv, float *h_next,
                                         float *hu_next, float *hv_next, int width, int height, float dt_dx)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float g = 9.81f;
    int at = y * width + x;
    int w = x > 0 ? at - 1 : at, e = x < width - 1 ? at + 1 : at;
    int n = y > 0 ? at - width : at, s = y < height - 1 ? at + width : at;

    float hw = h[w], he = h[e], hn = h[n], hs = h[s];
    float uw = hu[w], ue = hu[e], un = hu[n], us = hu[s];
    float vw = hv[w], ve = hv[e], vn = hv[n], vs = hv[s];
    float rw = 1.0f / hw, re = 1.0f / he, rn = 1.0f / hn, rs = 1.0f / hs;

    float half = 0.5f * dt_dx;
    h_next[at] = 0.25f * (hw + he + hn + hs) - half * (ue - uw) - half * (vs - vn);
    hu_next[at] = 0.25f * (uw + ue + un + us) -
                  half * (ue * ue * re + 0.5f * g * he * he - uw * uw * rw - 0.5f * g * hw * hw) -
                  half * (us * vs * rs - un * vn * rn);
    hv_next[at] = 0.25f * (vw + ve + vn + vs) - half * (ue * ve * re - uw * vw * rw) -
                  half * (vs * vs * rs + 0.5f * g * hs * hs - vn * vn * rn - 0.5f * g * hn * hn);
}
