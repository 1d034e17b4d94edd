// Molecular dynamics: potential and force on every particle of a box from all particles of its own and the
// neighbouring boxes, which lie in a cube. A block does a box of 100 particles with 128 threads.
#define PARTICLES 100
#define THREADS 128

struct Point {
    double v, x, y, z;
};

struct Neighbour {
    int x, y, z;
    int number;
    long offset;
};

struct Box {
    int x, y, z;
    int number;
    long offset;
    int neighbours;
    Neighbour neighbour[26];
};

#define DOT(a, b) ((a.x) * (b.x) + (a.y) * (b.y) + (a.z) * (b.z))

extern "C" __global__ void kernel_gpu_cuda(double alpha, long boxes, Box *box, Point *place, double *charge,
                                           Point *force)
{
    int home = blockIdx.x;
    int tx = threadIdx.x;
    int p = tx;

    if (home < boxes) {
        double a2 = 2.0 * alpha * alpha;
        __shared__ Point here[PARTICLES];
        __shared__ Point there[PARTICLES];
        __shared__ double charge_there[PARTICLES];

        int first = box[home].offset;
        Point *from = &place[first];
        Point *to = &force[first];
        while (p < PARTICLES) {
            here[p] = from[p];
            p = p + THREADS;
        }
        p = tx;
        __syncthreads();

        for (int k = 0; k < (1 + box[home].neighbours); k++) {
            int other;
            if (k == 0)
                other = home;
            else
                other = box[home].neighbour[k - 1].number;

            int first_there = box[other].offset;
            Point *from_there = &place[first_there];
            double *charge_from = &charge[first_there];
            while (p < PARTICLES) {
                there[p] = from_there[p];
                charge_there[p] = charge_from[p];
                p = p + THREADS;
            }
            p = tx;
            __syncthreads();

            while (p < PARTICLES) {
#pragma unroll 8
                for (int j = 0; j < PARTICLES; j++) {
                    double r2 = here[p].v + there[j].v - DOT(here[p], there[j]);
                    double u2 = a2 * r2;
                    double vij = exp(-u2);
                    double fs = 2 * vij;
                    double dx = here[p].x - there[j].x;
                    double fx = fs * dx;
                    double dy = here[p].y - there[j].y;
                    double fy = fs * dy;
                    double dz = here[p].z - there[j].z;
                    double fz = fs * dz;
                    to[p].v += charge_there[j] * vij;
                    to[p].x += charge_there[j] * fx;
                    to[p].y += charge_there[j] * fy;
                    to[p].z += charge_there[j] * fz;
                }
                p = p + THREADS;
            }
            p = tx;
            __syncthreads();
        }
    }
}
