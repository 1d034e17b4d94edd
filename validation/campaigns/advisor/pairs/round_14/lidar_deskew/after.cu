// Robotics: corrects the points of a spinning lidar for the vehicle's motion during the turn.
struct __align__(16) Point {
    float x, y, z, intensity;
    float time, range;
    int ring, return_number;
};

extern "C" __global__ void lidar_deskew(const Point *points, Point *corrected, int count, float speed, float yaw_rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    Point p = points[i];
    float s, c;
    __sincosf(yaw_rate * p.time, &s, &c);
    float x = c * p.x - s * p.y + speed * p.time;
    float y = s * p.x + c * p.y;
    p.x = x;
    p.y = y;
    p.range = sqrtf(x * x + y * y + p.z * p.z);
    corrected[i] = p;
}
