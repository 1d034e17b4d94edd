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
    float sin_lat = sin(lat), cos_lat = cos(lat);
    float sin_dec = sin(declination), cos_dec = cos(declination);
    float sin_tilt = sin(tilt), cos_tilt = cos(tilt);
    float pressure = exp(-elevation[cell] / 8434.5);
    float sum = 0.0f;
    for (int n = 0; n < steps; n++) {
        float hour_angle = 2.0 * 3.14159265358979 * ((n + 0.5) / steps - 0.5);
        float height = sin_lat * sin_dec + cos_lat * cos_dec * cos(hour_angle);
        if (height < 0.01)
            continue;
        float degrees = asin(height) * 57.29577951;
        float air_mass = pressure / (height + 0.50572 * pow(degrees + 6.07995, -1.6364));
        float east = cos_dec * sin(hour_angle);
        float south = cos_lat * -sin_dec + sin_lat * cos_dec * cos(hour_angle);
        float incidence = height * cos_tilt + sin_tilt * (south * cos(facing) + east * sin(facing));
        float thickness = 1.0 / (6.6296 + 1.7513 * air_mass - 0.1202 * air_mass * air_mass);
        if (air_mass > 6.0)
            thickness = 1.0 / (10.4 + 0.718 * air_mass);
        float beam = 1367.0 * exp(-0.8662 * turbidity * air_mass * thickness);
        sum += beam * (incidence > 0.0 ? incidence : 0.0);
    }
    energy[cell] = sum * 86400.0 / steps;
}
