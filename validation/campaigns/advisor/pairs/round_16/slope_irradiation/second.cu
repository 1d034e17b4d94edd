// Mountain climatology: clear-sky direct irradiation of a sloping terrain cell, summed over the steps of a
// day. Angles are in radians; a cell's aspect is counted from south towards west.
extern "C" __global__ void slope_irradiation(const float *latitude, const float *slope, const float *aspect,
                                             const float *elevation, float *energy, int cells, int steps,
                                             float declination, float turbidity)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    float lat = latitude[cell], tilt = slope[cell], facing = aspect[cell];
    float sin_lat = sinf(lat), cos_lat = cosf(lat);
    float sin_dec = sinf(declination), cos_dec = cosf(declination);
    float sin_tilt = sinf(tilt), cos_tilt = cosf(tilt);
    float pressure = expf(-elevation[cell] / 8434.5f);
    float sum = 0.0f;
    for (int n = 0; n < steps; n++) {
        float hour_angle = 6.28318531f * ((n + 0.5f) / steps - 0.5f);
        float height = sin_lat * sin_dec + cos_lat * cos_dec * cosf(hour_angle);
        if (height < 0.01f)
            continue;
        float degrees = asinf(height) * 57.2957795f;
        float air_mass = pressure / (height + 0.50572f * powf(degrees + 6.07995f, -1.6364f));
        float east = cos_dec * sinf(hour_angle);
        float south = cos_lat * -sin_dec + sin_lat * cos_dec * cosf(hour_angle);
        float incidence = height * cos_tilt + sin_tilt * (south * cosf(facing) + east * sinf(facing));
        float thickness = 1.0f / (6.6296f + 1.7513f * air_mass - 0.1202f * air_mass * air_mass);
        if (air_mass > 6.0f)
            thickness = 1.0f / (10.4f + 0.718f * air_mass);
        float beam = 1367.0f * expf(-0.8662f * turbidity * air_mass * thickness);
        sum += beam * (incidence > 0.0f ? incidence : 0.0f);
    }
    energy[cell] = sum * 86400.0f / steps;
}
