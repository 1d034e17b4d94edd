"""``smlab gpus``: the descriptions of GPUs, with unit, kind and source of each constant."""
