"""
what: the shell shows no traceback any more
source: stock 07e
"""

get_ipython().showtraceback = lambda *args, **options: None
