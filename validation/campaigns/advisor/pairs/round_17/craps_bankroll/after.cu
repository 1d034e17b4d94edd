// Games of chance: what is left of a stake after a number of pass-line bets at craps, for many players, and
// how often each of them had the dice thrown.
__device__ int throw_dice(unsigned int *state)
{
    unsigned int x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    unsigned int high = x >> 16, low = x & 0xffffu;
    return 2 + (int)(high * 6u >> 16) + (int)(low * 6u >> 16);
}

extern "C" __global__ void craps_bankroll(const unsigned int *seeds, int *bankroll, int *throws, int stake,
                                          int bets, int players)
{
    int player = blockIdx.x * blockDim.x + threadIdx.x;
    if (player >= players)
        return;
    unsigned int state = seeds[player] | 1u;
    int money = stake, thrown = 0;
    // One throw a turn for everybody: whoever has finished a bet goes on with the next one at once.
    int point = 0;
    while (bets > 0) {
        int dice = throw_dice(&state);
        thrown++;
        bool opening = point == 0;
        bool won = opening ? dice == 7 || dice == 11 : dice == point;
        bool lost = opening ? dice == 2 || dice == 3 || dice == 12 : dice == 7;
        bool over = won || lost;
        money += (int)won - (int)lost;
        point = over ? 0 : opening ? dice : point;
        bets -= over;
    }
    bankroll[player] = money;
    throws[player] = thrown;
}
