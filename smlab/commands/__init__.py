"""The commands of ``smlab``, a package or a file each: options in ``command``, the work behind them in
``run``."""
