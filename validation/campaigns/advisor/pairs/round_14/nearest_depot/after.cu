// Logistics: distance of every customer from the nearest depot, along great circles; degrees to kilometres.
#define DEPOTS 32

extern "C" __global__ void nearest_depot(const float *latitude, const float *longitude, const float *depot_latitude,
                                         const float *depot_longitude, float *distance, int customers)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= customers)
        return;
    float lat = latitude[i] * 3.14159265358979f / 180.0f, lon = longitude[i] * 3.14159265358979f / 180.0f;
    float nearest = 1e9f;
    for (int k = 0; k < DEPOTS; k++) {
        float other = depot_latitude[k] * 3.14159265358979f / 180.0f;
        float dlat = other - lat;
        float dlon = depot_longitude[k] * 3.14159265358979f / 180.0f - lon;
        float u = sinf(dlat / 2.0f), v = sinf(dlon / 2.0f);
        float a = u * u + cosf(lat) * cosf(other) * v * v;
        float d = 2.0f * 6371.0f * asinf(sqrtf(a));
        if (d < nearest)
            nearest = d;
    }
    distance[i] = nearest;
}
