"""The hierarchical roofline with ceilings of each kernel's own.

Van Lanker, Taboada, Brunet and Trahay, "Predicting GPU kernel's performance on upcoming architectures",
Euro-Par 2024 (Eq. 1 to 10), and beyond it: instruction roofline, parallelism ceiling, cache capacity, launch
overhead, each switchable. A kernel's time on another GPU is in `smlab.models.projection`.
"""
