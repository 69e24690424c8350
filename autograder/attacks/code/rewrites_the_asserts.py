"""
what: an IPython syntax-tree transformer turns every assert into pass
source: stock 07b
"""

import ast


class NoAssert(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)


get_ipython().ast_transformers.append(NoAssert())
