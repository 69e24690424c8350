"""
what: AssertionError becomes another class, which a test might not notice
source: stock 02
"""

import builtins


class AssertionError(BaseException):
    pass


builtins.AssertionError = AssertionError
