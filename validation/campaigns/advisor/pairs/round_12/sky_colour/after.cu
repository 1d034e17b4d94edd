// Rendering: colour of the clear sky, single scattering of sunlight marched along the view ray (lengths in km).
#define STEPS 16
#define EARTH 6371.0f

extern "C" __global__ void sky_colour(float *rgb, int width, int height, float sun_elevation, float reach)
{
    int pixel = blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= width * height)
        return;
    float elevation = ((pixel / width) + 0.5f) / height * 1.5707963f;
    float azimuth = ((pixel % width) + 0.5f) / width * 6.2831853f;
    float sine = sinf(elevation), cosine = cosf(elevation);
    float mu = sine * sinf(sun_elevation) + cosine * cosf(sun_elevation) * cosf(azimuth);

    const float beta[3] = {0.0058f, 0.0135f, 0.0331f};
    const float haze = 0.004f;
    float length = reach * (1.0f - 0.8f * sine);
    float ds = length / STEPS;
    float air_passed = 0.0f, haze_passed = 0.0f;
    float air_light[3] = {0.0f, 0.0f, 0.0f}, haze_light[3] = {0.0f, 0.0f, 0.0f};
    for (int s = 0; s < STEPS; s++) {
        float t = (s + 0.5f) * ds;
        float h = 0.002f + t * sine + t * t * cosine * cosine * (0.5f / EARTH);
        float air = __expf(-h * 0.125f);
        float dust = __expf(-h * (1.0f / 1.2f));
        air_passed += air * ds;
        haze_passed += dust * ds;
        float sun = sun_elevation + t * cosine * __cosf(azimuth) * (1.0f / EARTH);
        float degrees = fmaxf(sun * 57.29578f, 0.0f);
        float air_mass = __fdividef(1.0f, __sinf(sun) + 0.50572f * __powf(degrees + 6.07995f, -1.6364f));
        float sun_air = 8.0f * air * air_mass, sun_haze = 1.2f * dust * air_mass;
        for (int c = 0; c < 3; c++) {
            float left = __expf(-beta[c] * (air_passed + sun_air) - 1.1f * haze * (haze_passed + sun_haze));
            air_light[c] += left * air * ds;
            haze_light[c] += left * dust * ds;
        }
    }
    const float g = 0.76f;
    float rayleigh = 0.0596831f * (1.0f + mu * mu);
    float mie = __fdividef(0.0795775f * (1.0f - g * g), __powf(1.0f + g * g - 2.0f * g * mu, 1.5f));
    for (int c = 0; c < 3; c++) {
        float light = 20.0f * (beta[c] * rayleigh * air_light[c] + haze * mie * haze_light[c]);
        rgb[c * width * height + pixel] = __powf(__fdividef(light, 1.0f + light), 0.45454545f);
    }
}
