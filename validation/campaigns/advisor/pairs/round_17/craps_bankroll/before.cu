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
    for (int bet = 0; bet < bets; bet++) {
        int first = throw_dice(&state);
        thrown++;
        bool won = first == 7 || first == 11;
        if (!won && first != 2 && first != 3 && first != 12) {
            int dice;
            do {
                dice = throw_dice(&state);
                thrown++;
            } while (dice != first && dice != 7);
            won = dice == first;
        }
        money += won ? 1 : -1;
    }
    bankroll[player] = money;
    throws[player] = thrown;
}
