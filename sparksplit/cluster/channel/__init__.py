"""The driver's channel to its nodes and their launchers: `server.py` is the driver's end, `line.py` a process's.

What passes between them is in `wire.py` (messages), `seal.py` (proofs) and `peer.py` (a conversation over several
connections).
"""
