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
    // One throw per round for every lane, whether it comes out or throws for a point: the lanes of a warp
    // diverge only when some of them are through with all of their bets.
    int point = 0;
    for (int bet = 0; bet < bets;) {
        int dice = throw_dice(&state);
        thrown++;
        bool out = point == 0;
        bool natural = dice == 7 || dice == 11;
        bool craps = dice == 2 || dice == 3 || dice == 12;
        bool won = out ? natural : dice == point;
        bool lost = out ? craps : dice == 7;
        bool over = won || lost;
        money += (int)won - (int)lost;
        bet += (int)over;
        point = over ? 0 : (out ? dice : point);
    }
    bankroll[player] = money;
    throws[player] = thrown;
}
