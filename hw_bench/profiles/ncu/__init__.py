"""Reading what Nsight Compute and nvprof wrote: CSV in all their forms, and reports."""
