// Huffman coding: every block packs the codewords of its 1024 bytes (one word of four bytes per thread) into a
// gapless string of bits. Lengths are added up by a scan in shared memory, bits are set there by atomics.
#define SYMBOLS 256

extern "C" __global__ void vlc_encode_kernel_sm64huff(unsigned int *source, const unsigned int *table_bits,
                                                      const unsigned int *table_lengths, unsigned int *packed,
                                                      unsigned int *block_bits)
{
    extern __shared__ unsigned int shared[];
    __shared__ unsigned int last_word;
    unsigned int *bits_of = shared;
    unsigned int *length_of = shared + SYMBOLS;
    unsigned int *sums = shared + 2 * SYMBOLS;

    unsigned int g = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int t = threadIdx.x;

    bits_of[t] = table_bits[t];
    length_of[t] = table_lengths[t];
    unsigned int four = source[g];
    __syncthreads();

    unsigned long long code = 0;
    unsigned int length = 0;
    for (unsigned int b = 0; b < 4; b++) {
        unsigned char symbol = (unsigned char)(four >> ((3 - b) * 8));
        unsigned int bits = bits_of[symbol];
        unsigned char count = length_of[symbol];
        code = (code << count) | bits;
        length += count;
    }
    sums[t] = length;
    __syncthreads();

    // Exclusive scan in place: up the tree ...
    unsigned int stride = 1;
    for (unsigned int active = blockDim.x >> 1; active > 0; active >>= 1) {
        __syncthreads();
        if (t < active) {
            unsigned char left = stride * (2 * t + 1) - 1;
            unsigned char right = stride * (2 * t + 2) - 1;
            sums[right] += sums[left];
        }
        stride *= 2;
    }
    if (t == 0)
        sums[blockDim.x - 1] = 0;

    // ... and down again, a barrier of the block at each level.
    for (unsigned int active = 1; active < blockDim.x; active *= 2) {
        stride >>= 1;
        __syncthreads();
        if (t < active) {
            unsigned char left = stride * (2 * t + 1) - 1;
            unsigned char right = stride * (2 * t + 2) - 1;
            unsigned int kept = sums[left];
            sums[left] = sums[right];
            sums[right] += kept;
        }
    }
    __syncthreads();

    if (t == blockDim.x - 1) {
        block_bits[blockIdx.x] = sums[t] + length;
        last_word = (sums[t] + length) / 32;
    }
    unsigned int word = sums[t] / 32;
    unsigned int first = sums[t] % 32;
    sums[t] = 0U;
    __syncthreads();

    // A thread's code covers at most three words.
    unsigned int written = length > (32 - first) ? (32 - first) : length;
    unsigned int part = (unsigned int)(code >> (length - written));
    atomicOr(&sums[word], part << (32 - first - written));
    length -= written;
    if (length) {
        written = length > 32 ? 32 : length;
        part = (unsigned int)(code >> (length - written)) & ((1 << written) - 1);
        atomicOr(&sums[word + 1], part << (32 - written));
        length -= written;
    }
    if (length) {
        part = (unsigned int)(code & ((1 << length) - 1));
        atomicOr(&sums[word + 2], part << (32 - length));
    }
    __syncthreads();

    if (t <= last_word)
        packed[g] = sums[t];
}
