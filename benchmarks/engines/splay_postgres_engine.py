"""SplayDB as a server, asked over PostgreSQL's wire by psycopg: the same client as PostgreSQL's, with SplayDB's own texts.

Texts go as ``COPY (…) TO STDOUT``, whose CSV Arrow parses, as for PostgreSQL; prepared statements by the extended protocol.
"""

from .postgresql_client import TRANSPORT, Client
from .splay_http_engine import Engine as Server


class Text:
    """SplayDB's statements in the place of a dialect."""

    def text(self, question, parameters, variant, own=None) -> str:
        from engine.question import render
        from engine.systems.splaydb import literal

        return render(question.sql, parameters, variant, literal)

    def template(self, question, own=None) -> str:
        return question.sql


class Engine(Server):
    name = "splay-postgres"
    title = "SplayDB, PostgreSQL's wire"
    takes_cold = False
    requirements = ("numpy", "psycopg[binary]==3.3.9", "pyarrow==26.0.1")
    starts = "`splay serve`, started by the worker, bound to 127.0.0.1; asked over PostgreSQL's wire by psycopg"
    transport = TRANSPORT
    best = "The tables of SplayDB in process, behind `splay serve`; the client of PostgreSQL: `COPY` as CSV parsed by Arrow."

    def session(self):
        host, port = self.addresses["postgres"]
        return Client(f"host={host} port={port} user=bench dbname=splay", {}, Text())
