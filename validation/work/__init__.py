"""Doing long work: tasks in this process, on local processes or on Dask's, and a store that resumes.

One runner serves studies, `smlab validate`, the case study, campaigns and the check of machine code. A
*task* (`runner.Task`) is a top-level function with its arguments; *workers* (`interface.Workers`) do tasks
somewhere; `runner.completed` hands tasks out as places come free, runs those again whose worker died, and
gives results as they come. `store.Store` keeps results under a hash of all that they depend on.

Ctrl-C and SIGTERM are the parent's: it ends the workers at once and keeps what was done. A parent that is
killed (SIGKILL) cannot end anything, so each worker watches it and leaves with it.
"""
