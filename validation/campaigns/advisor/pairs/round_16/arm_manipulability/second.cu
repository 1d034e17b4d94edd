// Robot arm planning: for many joint configurations the position of the tool and the manipulability there,
// which is the volume that the positional Jacobian spans. A link is cos and sin of its twist, its length and
// its offset.
#define MAX_JOINTS 12

extern "C" __global__ void __launch_bounds__(128, 8) arm_manipulability(const float *angles, const float4 *links, float4 *result,
                                              int samples, int joints)
{
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= samples)
        return;
    float axis[MAX_JOINTS][3], origin[MAX_JOINTS][3];
    float xx = 1.0f, xy = 0.0f, xz = 0.0f;
    float yx = 0.0f, yy = 1.0f, yz = 0.0f;
    float zx = 0.0f, zy = 0.0f, zz = 1.0f;
    float px = 0.0f, py = 0.0f, pz = 0.0f;
    // Both loops are unrolled to the largest arm, so that axis and origin are indexed by constants only and
    // stay in registers.
#pragma unroll
    for (int j = 0; j < MAX_JOINTS; j++) {
        if (j >= joints)
            break;
        axis[j][0] = zx, axis[j][1] = zy, axis[j][2] = zz;
        origin[j][0] = px, origin[j][1] = py, origin[j][2] = pz;
        float4 link = links[j];
        float s, c;
        __sincosf(angles[j * samples + n], &s, &c);
        // turn about z, go along x and z, twist about x
        float ax = c * xx + s * yx, ay = c * xy + s * yy, az = c * xz + s * yz;
        float bx = c * yx - s * xx, by = c * yy - s * xy, bz = c * yz - s * xz;
        px += link.z * ax + link.w * zx;
        py += link.z * ay + link.w * zy;
        pz += link.z * az + link.w * zz;
        xx = ax, xy = ay, xz = az;
        yx = link.x * bx + link.y * zx, yy = link.x * by + link.y * zy, yz = link.x * bz + link.y * zz;
        zx = link.x * zx - link.y * bx, zy = link.x * zy - link.y * by, zz = link.x * zz - link.y * bz;
    }
    float m00 = 0.0f, m01 = 0.0f, m02 = 0.0f, m11 = 0.0f, m12 = 0.0f, m22 = 0.0f;
#pragma unroll
    for (int j = 0; j < MAX_JOINTS; j++) {
        if (j >= joints)
            break;
        float dx = px - origin[j][0], dy = py - origin[j][1], dz = pz - origin[j][2];
        float jx = axis[j][1] * dz - axis[j][2] * dy;
        float jy = axis[j][2] * dx - axis[j][0] * dz;
        float jz = axis[j][0] * dy - axis[j][1] * dx;
        m00 += jx * jx, m01 += jx * jy, m02 += jx * jz;
        m11 += jy * jy, m12 += jy * jz, m22 += jz * jz;
    }
    float volume = m00 * (m11 * m22 - m12 * m12) - m01 * (m01 * m22 - m12 * m02);
    volume += m02 * (m01 * m12 - m11 * m02);
    result[n] = make_float4(px, py, pz, sqrtf(fmaxf(volume, 0.0f)));
}
