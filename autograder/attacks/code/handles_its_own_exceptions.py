"""
what: every exception goes to a handler that says nothing
source: stock 07d
"""

get_ipython().set_custom_exc((BaseException,), lambda *args, **options: None)
