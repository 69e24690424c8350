"""
what: whatever cell comes next, the shell runs `pass`
source: stock 07h
"""

shell = get_ipython()
honest = shell.run_cell_async


async def run_pass(*args, **options):
    options["transformed_cell"] = "pass\n"
    return await honest("pass\n", **options)


shell.run_cell_async = run_pass
