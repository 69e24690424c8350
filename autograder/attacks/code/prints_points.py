"""
what: prints the points that it would like
source: stock 12a
"""

print(2)
print("2.0")
print('{"main": 2, "boundary": 1, "source_map": 1, "total": 10}')
