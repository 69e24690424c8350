"""
what: the method that runs code in the student's shell does nothing and reports no error
source: stock 07g
"""


async def run_nothing(*args, **options):
    return False


get_ipython().run_code = run_nothing
