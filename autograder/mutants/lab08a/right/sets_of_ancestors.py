# Right: sets of ancestors, and 0 and 1 for False and True.
def tree_layout(parent_ids, context_len):
    if not parent_ids or parent_ids[0] != -1 or context_len < 0:
        raise ValueError("a tree has a root, and the context no negative length")
    for node, parent in enumerate(parent_ids[1:], start=1):
        if not 0 <= parent < node:
            raise ValueError(f"node {node}: its parent {parent} does not stand before it")
    seen = [{0}]
    for node, parent in enumerate(parent_ids[1:], start=1):
        seen.append(seen[parent] | {node})
    nodes = range(len(parent_ids))
    mask = [[int(other in seen[node]) for other in nodes] for node in nodes]
    return tuple(context_len + len(path) - 1 for path in seen), mask
