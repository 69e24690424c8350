"""
what: asks for more memory than there is, bit by bit, until it is refused
source: stock 14, timing 29
"""

import mmap

hoard = []
while True:  # untouched pages cost the machine nothing, but they count
    hoard.append(mmap.mmap(-1, 256 << 20, flags=mmap.MAP_PRIVATE))
