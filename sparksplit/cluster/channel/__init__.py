"""The driver's channel to its nodes and their launchers. `server.py` is the driver's end, `line.py` a process's end.

`peer.py` is a conversation over several connections. Messages are in `network/wire.py`, proofs in `network/seal.py`.
"""
