// Card games: class of a seven-card hand by the multiplicities of its ranks
// (0 high card, 1 pair, 2 two pairs, 3 three of a kind, 6 full house, 7 four).
#define CARDS 7
#define RANKS 13

__device__ int hand_class(int best, int pairs, int threes)
{
    if (best == 4)
        return 7;
    if (threes > 1 || (threes == 1 && pairs > 0))
        return 6;
    if (threes == 1)
        return 3;
    return pairs > 1 ? 2 : pairs;
}

extern "C" __global__ void poker_hands(const int *__restrict__ card,
                                       int *__restrict__ result, int hands)
{
    int h = blockIdx.x * blockDim.x + threadIdx.x;
    if (h >= hands)
        return;

    // four bits a rank, in one register pair
    unsigned long long count = 0;
    for (int c = 0; c < CARDS; ++c)
        count += 1ull << (4 * (card[c * hands + h] % RANKS));

    int best = 0, pairs = 0, threes = 0;
    for (int r = 0; r < RANKS; ++r) {
        int n = (int)(count >> (4 * r)) & 15;
        best = max(best, n);
        pairs += n == 2;
        threes += n == 3;
    }
    result[h] = hand_class(best, pairs, threes);
}
