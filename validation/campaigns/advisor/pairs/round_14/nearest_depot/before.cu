// Logistics: distance of every customer from the nearest depot, along great circles; degrees to kilometres.
#define DEPOTS 32

extern "C" __global__ void nearest_depot(const float *latitude, const float *longitude, const float *depot_latitude,
                                         const float *depot_longitude, float *distance, int customers)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= customers)
        return;
    float lat = latitude[i] * 3.14159265358979 / 180.0, lon = longitude[i] * 3.14159265358979 / 180.0;
    float nearest = 1e9f;
    for (int k = 0; k < DEPOTS; k++) {
        float other = depot_latitude[k] * 3.14159265358979 / 180.0;
        float dlat = other - lat;
        float dlon = depot_longitude[k] * 3.14159265358979 / 180.0 - lon;
        float u = sin(dlat / 2.0), v = sin(dlon / 2.0);
        float a = u * u + cos(lat) * cos(other) * v * v;
        float d = 2.0 * 6371.0 * asin(sqrt(a));
        if (d < nearest)
            nearest = d;
    }
    distance[i] = nearest;
}
