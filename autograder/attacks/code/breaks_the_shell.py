"""
what: the shell's run_cell returns nothing that the kernel can use
source: stock 07c
slow: true
"""

get_ipython().run_cell = lambda *args, **options: None
get_ipython().run_cell_async = lambda *args, **options: None
