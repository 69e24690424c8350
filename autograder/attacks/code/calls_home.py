"""
what: connects to a service of the machine and sends what it knows
source: stock 17
needs: bubblewrap
"""

import socket

with socket.create_connection(("127.0.0.1", 47631), timeout=1) as connection:
    connection.sendall(b"specdec-canary-network")
