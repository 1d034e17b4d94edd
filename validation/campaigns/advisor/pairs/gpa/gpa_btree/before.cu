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
    int level;
    for (level = 0; level < height; level++) {
        if ((tree[low_node[query]].keys[slot] <= low[query]) &&
            (tree[low_node[query]].keys[slot + 1] > low[query])) {
            if (tree[low_node[query]].below[slot] < nodes) {
                low_next[query] = tree[low_node[query]].below[slot];
            }
        }
        if ((tree[high_node[query]].keys[slot] <= high[query]) &&
            (tree[high_node[query]].keys[slot + 1] > high[query])) {
            if (tree[high_node[query]].below[slot] < nodes) {
                high_next[query] = tree[high_node[query]].below[slot];
            }
        }
        __syncthreads();
        if (slot == 0) {
            low_node[query] = low_next[query];
            high_node[query] = high_next[query];
        }
        __syncthreads();
    }
    if (tree[low_node[query]].keys[slot] == low[query]) {
        found[query] = tree[low_node[query]].below[slot];
    }
    __syncthreads();
    if (tree[high_node[query]].keys[slot] == high[query]) {
        length[query] = tree[high_node[query]].below[slot] - found[query] + 1;
    }
}
