"""Changes of CUDA C that are made on its syntax tree, so that `smlab advise` can try them."""
