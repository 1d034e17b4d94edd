// Heart wall tracking in ultrasound video: a block for each of 51 points compares the point's template with the
// surroundings of the point in a frame (normalised cross-correlation by a convolution and running sums) and takes the
// place that fits best. All matrices lie by columns; places are counted from 1. Where a point's arrays are (bytes from
// the beginning of a larger array) is in constant memory.
#define THREADS 256
#define POINTS 51

typedef unsigned long long Address;

struct Sizes {
    int reach, half;
    float keep;
    int frame_number, frames, frame_rows;
    int in_rows, in_cols, in_count;
    int area_rows, area_cols, area_count;
    int conv_rows, conv_count, conv_down, conv_right;
    int pad_down, pad_right;
    int pad_rows, pad_cols, pad_count;
    int low_rows, low_count, low_row, low_col;
    int high_row, high_col;
    int strip_rows, strip_count;
    int right_rows, right_count, right_row, right_col;
    int left_row, left_col;
    int sum_rows, sum_count;
    int square_rows, square_cols, square_count;
    int in_square_rows, in_square_cols, in_square_count;
    int dot_rows, dot_cols, dot_count;
    int mask_rows, mask_cols;
    int fit_rows, fit_cols, fit_count, fit_down, fit_right;
};

struct Point {
    Address row, col, found_row, found_col, in;
    int number, first;
    Address area, conv, pad, low, strip, right, sum, square, square_sum, in_square, dot, fit;
};

__constant__ Sizes size;
__constant__ Point point[POINTS];

__device__ inline int *ints(Address base, Address offset)
{
    return (int *)(base + offset);
}

__device__ inline float *floats(Address base, Address offset)
{
    return (float *)(base + offset);
}

// Row and column (from 0) of an element of a matrix that lies by columns.
__device__ inline void split(int element, int rows, int &row, int &col)
{
    row = (element + 1) % rows - 1;
    col = (element + 1) / rows + 1 - 1;
    if ((element + 1) % rows == 0) {
        row = rows - 1;
        col = col - 1;
    }
}

extern "C" __global__ void kernel(Address frame_at, Address rows_at, Address cols_at, Address found_rows_at,
                                  Address found_cols_at, Address templates_at, Address work_at)
{
    __shared__ float in_sums[51];
    __shared__ float in_square_sums[51];
    __shared__ float in_total;
    __shared__ float in_square_total;
    __shared__ float in_spread;
    __shared__ float best_of_row[131];
    __shared__ int place_of_row[131];
    __shared__ float turned[2601];

    int b = blockIdx.x;
    int t = threadIdx.x;
    int e, row, col, from_row, from_col;
    float *in;

#define FRAME ((float *)frame_at)
#define ROW (ints(rows_at, point[b].row)[point[b].number])
#define COL (ints(cols_at, point[b].col)[point[b].number])
#define FOUND_ROW(k) (ints(found_rows_at, point[b].found_row)[k])
#define FOUND_COL(k) (ints(found_cols_at, point[b].found_col)[k])
#define TEMPLATE (&floats(templates_at, point[b].in)[point[b].first])
#define OF(array) (floats(work_at, point[b].array))

    // The first frame: cut out the template.
    if (size.frame_number == 0) {
        in = TEMPLATE;
        e = t;
        if (e == 0) {
            int k = point[b].number * size.frames + size.frame_number;
            FOUND_ROW(k) = ROW;
            FOUND_COL(k) = COL;
        }
        e = t;
        while (e < size.in_count) {
            split(e, size.in_rows, row, col);
            from_row = ROW - 25 + row - 1;
            from_col = COL - 25 + col - 1;
            int from = from_col * size.frame_rows + from_row;
            in[col * size.in_rows + row] = FRAME[from];
            e = e + THREADS;
        }
    }

    if (size.frame_number != 0) {
        // The surroundings of the point.
        int area_row = ROW - size.reach;
        int area_col = COL - size.reach;
        e = t;
        while (e < size.area_count) {
            split(e, size.area_rows, row, col);
            from_row = row + area_row - 1;
            from_col = col + area_col - 1;
            OF(area)[e] = FRAME[from_col * size.frame_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();

        // The template, turned by half a turn.
        in = TEMPLATE;
        e = t;
        while (e < size.in_count) {
            split(e, size.in_rows, row, col);
            int turned_row = (size.in_rows - 1) - row;
            int turned_col = (size.in_rows - 1) - col;
            turned[e] = in[turned_col * size.in_rows + turned_row];
            e = e + THREADS;
        }
        __syncthreads();

        // Convolution of both.
        e = t;
        while (e < size.conv_count) {
            int ic = (e + 1) % size.conv_rows;
            int jc = (e + 1) / size.conv_rows + 1;
            if ((e + 1) % size.conv_rows == 0) {
                ic = size.conv_rows;
                jc = jc - 1;
            }
            int j = jc + size.conv_right;
            int after_j = j + 1;
            int ja1, ja2, ia1, ia2;
            if (size.area_cols < after_j)
                ja1 = after_j - size.area_cols;
            else
                ja1 = 1;
            if (size.in_cols < j)
                ja2 = size.in_cols;
            else
                ja2 = j;
            int i = ic + size.conv_down;
            int after_i = i + 1;
            if (size.area_rows < after_i)
                ia1 = after_i - size.area_rows;
            else
                ia1 = 1;
            if (size.in_rows < i)
                ia2 = size.in_rows;
            else
                ia2 = i;

            float s = 0;
            for (int ja = ja1; ja <= ja2; ja++) {
                int jb = after_j - ja;
                for (int ia = ia1; ia <= ia2; ia++) {
                    int ib = after_i - ia;
                    s = s + turned[size.in_rows * (ja - 1) + ia - 1] * OF(area)[size.area_rows * (jb - 1) + ib - 1];
                }
            }
            OF(conv)[e] = s;
            e = e + THREADS;
        }
        __syncthreads();

        // Sums of the surroundings below each place of the template: padded, added up down the columns, ...
        e = t;
        while (e < size.pad_count) {
            split(e, size.pad_rows, row, col);
            if (row > (size.pad_down - 1) && row < (size.pad_down + size.area_rows) && col > (size.pad_right - 1) &&
                col < (size.pad_right + size.area_cols)) {
                from_row = row - size.pad_down;
                from_col = col - size.pad_right;
                OF(pad)[e] = OF(area)[from_col * size.area_rows + from_row];
            } else {
                OF(pad)[e] = 0;
            }
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.pad_cols) {
            int first = e * size.pad_rows;
            float sum = 0;
            for (int k = first; k < first + size.pad_rows; k = k + 1) {
                OF(pad)[k] = OF(pad)[k] + sum;
                sum = OF(pad)[k];
            }
            e = e + THREADS;
        }
        __syncthreads();

        // ... the difference of two of its parts, ...
        e = t;
        while (e < size.low_count) {
            split(e, size.low_rows, row, col);
            from_row = row + size.low_row - 1;
            from_col = col + size.low_col - 1;
            OF(low)[e] = OF(pad)[from_col * size.pad_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.strip_count) {
            split(e, size.strip_rows, row, col);
            from_row = row + size.high_row - 1;
            from_col = col + size.high_col - 1;
            OF(strip)[e] = OF(pad)[from_col * size.pad_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.strip_count) {
            OF(strip)[e] = OF(low)[e] - OF(strip)[e];
            e = e + THREADS;
        }
        __syncthreads();

        // ... added up along the rows, and the difference of two parts of that.
        e = t;
        while (e < size.strip_rows) {
            int first = e;
            float sum = 0;
            for (int k = first; k < first + size.strip_count; k = k + size.strip_rows) {
                OF(strip)[k] = OF(strip)[k] + sum;
                sum = OF(strip)[k];
            }
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.right_count) {
            split(e, size.right_rows, row, col);
            from_row = row + size.right_row - 1;
            from_col = col + size.right_col - 1;
            OF(right)[e] = OF(strip)[from_col * size.strip_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.sum_count) {
            split(e, size.sum_rows, row, col);
            from_row = row + size.left_row - 1;
            from_col = col + size.left_col - 1;
            OF(sum)[e] = OF(strip)[from_col * size.strip_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.sum_count) {
            OF(sum)[e] = OF(right)[e] - OF(sum)[e];
            e = e + THREADS;
        }
        __syncthreads();

        // The same sums of squares.
        e = t;
        while (e < size.square_count) {
            float value = OF(area)[e];
            OF(square)[e] = value * value;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.pad_count) {
            split(e, size.pad_rows, row, col);
            if (row > (size.pad_down - 1) && row < (size.pad_down + size.square_rows) && col > (size.pad_right - 1) &&
                col < (size.pad_right + size.square_cols)) {
                from_row = row - size.pad_down;
                from_col = col - size.pad_right;
                OF(pad)[e] = OF(square)[from_col * size.square_rows + from_row];
            } else {
                OF(pad)[e] = 0;
            }
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.pad_cols) {
            int first = e * size.pad_rows;
            float sum = 0;
            for (int k = first; k < first + size.pad_rows; k = k + 1) {
                OF(pad)[k] = OF(pad)[k] + sum;
                sum = OF(pad)[k];
            }
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.low_count) {
            split(e, size.low_rows, row, col);
            from_row = row + size.low_row - 1;
            from_col = col + size.low_col - 1;
            OF(low)[e] = OF(pad)[from_col * size.pad_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.strip_count) {
            split(e, size.strip_rows, row, col);
            from_row = row + size.high_row - 1;
            from_col = col + size.high_col - 1;
            OF(strip)[e] = OF(pad)[from_col * size.pad_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.strip_count) {
            OF(strip)[e] = OF(low)[e] - OF(strip)[e];
            e = e + THREADS;
        }
        __syncthreads(); // the authors have none here, and so a race
        e = t;
        while (e < size.strip_rows) {
            int first = e;
            float sum = 0;
            for (int k = first; k < first + size.strip_count; k = k + size.strip_rows) {
                OF(strip)[k] = OF(strip)[k] + sum;
                sum = OF(strip)[k];
            }
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.right_count) {
            split(e, size.right_rows, row, col);
            from_row = row + size.right_row - 1;
            from_col = col + size.right_col - 1;
            OF(right)[e] = OF(strip)[from_col * size.strip_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.sum_count) {
            split(e, size.sum_rows, row, col);
            from_row = row + size.left_row - 1;
            from_col = col + size.left_col - 1;
            OF(square_sum)[e] = OF(strip)[from_col * size.strip_rows + from_row];
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.sum_count) {
            OF(square_sum)[e] = OF(right)[e] - OF(square_sum)[e];
            e = e + THREADS;
        }
        __syncthreads();

        // The spread of the surroundings.
        e = t;
        while (e < size.sum_count) {
            float value = OF(sum)[e];
            float spread = OF(square_sum)[e] - (value * value / size.in_count);
            if (spread < 0)
                spread = 0;
            OF(square_sum)[e] = sqrtf(spread);
            e = e + THREADS;
        }
        __syncthreads();

        // The spread of the template.
        e = t;
        while (e < size.in_square_count) {
            float value = in[e];
            OF(in_square)[e] = value * value;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.in_cols) {
            float sum = 0;
            for (int i = 0; i < size.in_rows; i++)
                sum = sum + in[e * size.in_rows + i];
            in_sums[e] = sum;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.in_square_rows) {
            float sum = 0;
            for (int i = 0; i < size.in_square_cols; i++)
                sum = sum + OF(in_square)[e + size.in_square_rows * i];
            in_square_sums[e] = sum;
            e = e + THREADS;
        }
        __syncthreads();
        if (t == 0) {
            in_total = 0;
            for (int i = 0; i < size.in_cols; i++)
                in_total = in_total + in_sums[i];
        } else if (t == 1) {
            in_square_total = 0;
            for (int i = 0; i < size.in_square_cols; i++)
                in_square_total = in_square_total + in_square_sums[i];
        }
        __syncthreads();
        if (t == 0) {
            float mean = in_total / size.in_count;
            float mean_square = mean * mean;
            float variance = (in_square_total / size.in_count) - mean_square;
            float deviation = sqrtf(variance);
            in_spread = sqrtf(float(size.in_count - 1)) * deviation;
        }
        __syncthreads();

        // The correlation.
        e = t;
        while (e < size.sum_count) {
            OF(square_sum)[e] = OF(square_sum)[e] * in_spread;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.conv_count) {
            OF(conv)[e] = OF(conv)[e] - OF(sum)[e] * in_total / size.in_count;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.sum_count) {
            OF(square_sum)[e] = OF(conv)[e] / OF(square_sum)[e];
            e = e + THREADS;
        }
        __syncthreads();

        // Only places near the last one count: a dot there, smeared by a square of ones.
        int centre = size.reach + size.half + 1;
        int dot_row, dot_col;
        if (size.frame_number == 0) {
            dot_row = centre + ROW - ROW - 1;
            dot_col = centre + COL - COL - 1;
        } else {
            int k = size.frame_number - 1 + point[b].number * size.frames;
            dot_row = centre + FOUND_ROW(k) - ROW - 1;
            dot_col = centre + FOUND_COL(k) - COL - 1;
        }
        e = t;
        while (e < size.dot_count) {
            int place = dot_col * size.dot_rows + dot_row;
            if (e == place)
                OF(dot)[e] = 1;
            else
                OF(dot)[e] = 0;
            e = e + THREADS;
        }
        __syncthreads();
        e = t;
        while (e < size.fit_count) {
            int ic = (e + 1) % size.fit_rows;
            int jc = (e + 1) / size.fit_rows + 1;
            if ((e + 1) % size.fit_rows == 0) {
                ic = size.fit_rows;
                jc = jc - 1;
            }
            int j = jc + size.fit_right;
            int after_j = j + 1;
            int ja1, ja2, ia1, ia2;
            if (size.mask_cols < after_j)
                ja1 = after_j - size.mask_cols;
            else
                ja1 = 1;
            if (size.dot_cols < j)
                ja2 = size.dot_cols;
            else
                ja2 = j;
            int i = ic + size.fit_down;
            int after_i = i + 1;
            if (size.mask_rows < after_i)
                ia1 = after_i - size.mask_rows;
            else
                ia1 = 1;
            if (size.dot_rows < i)
                ia2 = size.dot_rows;
            else
                ia2 = i;

            float s = 0;
            for (int ja = ja1; ja <= ja2; ja++) {
                for (int ia = ia1; ia <= ia2; ia++)
                    s = s + OF(dot)[size.dot_rows * (ja - 1) + ia - 1] * 1;
            }
            OF(fit)[e] = OF(square_sum)[e] * s;
            e = e + THREADS;
        }
        __syncthreads();

        // The place of the largest.
        float largest = 0;
        int largest_place = 0;
        e = t;
        while (e < size.fit_rows) {
            for (int i = 0; i < size.fit_cols; i++) {
                int place = e * size.fit_rows + i;
                float value = fabsf(OF(fit)[place]);
                if (value > largest) {
                    largest_place = place;
                    largest = value;
                }
            }
            place_of_row[e] = largest_place;
            best_of_row[e] = largest;
            e = e + THREADS;
        }
        __syncthreads();
        if (t == 0) {
            float best = 0;
            int best_place = 0;
            for (int i = 0; i < size.fit_rows; i++) {
                if (best_of_row[i] > best) {
                    best = best_of_row[i];
                    best_place = place_of_row[i];
                }
            }
            int best_row = (best_place + 1) % size.fit_rows - 1;
            int best_col = (best_place + 1) / size.fit_rows;
            if ((best_place + 1) % size.fit_rows == 0) {
                best_row = size.fit_rows - 1;
                best_col = best_col - 1;
            }
            best_row = best_row + 1;
            best_col = best_col + 1;
            int down = best_row - size.in_rows - (size.reach - size.half);
            int right = best_col - size.in_cols - (size.reach - size.half);
            int k = size.frame_number + point[b].number * size.frames;
            FOUND_ROW(k) = ROW + down;
            FOUND_COL(k) = COL + right;
        }
        __syncthreads();
    }

    // Every tenth frame: move the point, and mix the template with what is there now.
    if (size.frame_number != 0 && (size.frame_number) % 10 == 0) {
        int k = point[b].number * size.frames + size.frame_number;
        ROW = FOUND_ROW(k);
        COL = FOUND_COL(k);
        e = t;
        while (e < size.in_count) {
            split(e, size.in_rows, row, col);
            from_row = ROW - 25 + row - 1;
            from_col = COL - 25 + col - 1;
            int from = from_col * size.frame_rows + from_row;
            in[e] = size.keep * in[e] + (1.00 - size.keep) * FRAME[from];
            e = e + THREADS;
        }
    }
}
