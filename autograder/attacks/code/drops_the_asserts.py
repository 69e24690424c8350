"""
what: an IPython input transformer deletes every line that asserts
source: stock 07a
"""


def without_asserts(lines):
    return [line for line in lines if not line.lstrip().startswith("assert")]


get_ipython().input_transformers_cleanup.append(without_asserts)
