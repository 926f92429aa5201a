"""Lazy frames: expressions and verbs that become one SQL statement, whoever runs it.

Nothing here reads or computes: :mod:`splay.frames.query` writes SQL, and a database, a server or a session over files runs it.
"""
