// Range search in a B+ tree: one block descends for one query, once for the first and once for the last key
// of the range, and each thread compares one key of a node. The place of the first key and how many follow
// are written.
#define ORDER 256

struct TreeNode {
    int place;
    int below[ORDER + 1];
    int keys[ORDER + 1];
    bool leaf;
    int filled;
};

extern "C" __global__ void range_search(long height, TreeNode *tree, long nodes, long *low_node, long *low_next,
                                        long *high_node, long *high_next, int *low, int *high, int *found,
                                        int *length)
{
    int slot = threadIdx.x;
    int query = blockIdx.x;
    int from = low[query];
    int to = high[query];
    int *low_keys = tree[low_node[query]].keys;
    int *high_keys = tree[high_node[query]].keys;
    int *low_below = tree[low_node[query]].below;
    int *high_below = tree[high_node[query]].below;
    int level;
    for (level = 0; level < height; level++) {
        if ((low_keys[slot] <= from) && (low_keys[slot + 1] > from)) {
            if (low_below[slot] < nodes) {
                low_next[query] = low_below[slot];
            }
        }
        if ((high_keys[slot] <= to) && (high_keys[slot + 1] > to)) {
            if (high_below[slot] < nodes) {
                high_next[query] = high_below[slot];
            }
        }
        __syncthreads();
        low_keys = tree[low_next[query]].keys;
        low_below = tree[low_next[query]].below;
        high_keys = tree[high_next[query]].keys;
        high_below = tree[high_next[query]].below;
        __syncthreads();
    }
    int last = high_keys[slot];
    if (low_keys[slot] == from) {
        found[query] = low_below[slot];
    }
    __syncthreads();
    if (last == to) {
        length[query] = high_below[slot] - found[query] + 1;
    }
}
