"""Clients of PostgreSQL's wire.

``ArrowClient`` asks by ADBC's driver, which takes ``COPY`` in binary to Arrow: the quickest way to columns in Python, up to 2.6 times as
fast as CSV. ``Client`` asks by psycopg, for servers that have no ``COPY`` in the extended protocol: CSV that Arrow parses. A prepared
statement goes by psycopg in both: its rows are put into columns by Python, which weighs on large answers.
"""

from .translate import never_seen, placeholders

TRANSPORT = "PostgreSQL's wire, CSV"
ARROW_TRANSPORT = "PostgreSQL's wire, binary COPY to Arrow"


def as_column(values):
    """Python's values as an Arrow column; an ENUM comes as bytes, since psycopg doesn't know its type."""
    import pyarrow as pa

    column = pa.array(values)
    return column.cast(pa.string()) if pa.types.is_binary(column.type) else column


class Client:
    """A connection; ``own`` and ``dialect`` are the texts of the engine."""

    def __init__(self, address: str, own: dict[str, str], dialect):
        import psycopg

        self.connection = psycopg.connect(address, autocommit=True)
        self.own = own
        self.dialect = dialect

    def run(self, text: str):
        return self.connection.execute(text)

    def ask(self, text: str):
        import pyarrow as pa
        from pyarrow import csv

        with self.connection.cursor().copy(f"COPY ({text}) TO STDOUT (FORMAT csv, HEADER)") as copy:
            return csv.read_csv(pa.BufferReader(b"".join(copy)))

    def text(self, question, parameters, variant) -> str:
        return self.dialect.text(question, parameters, variant, self.own.get(question.id))

    def prepare(self, question, parameters, variant):
        text = self.text(question, parameters, variant)
        return lambda: self.ask(text)

    def unseen(self, question, parameters, variant, mark: int):
        text = never_seen(self.text(question, parameters, variant), mark)
        return lambda: self.ask(text)

    def prepared(self, question, parameters, variant):
        import psycopg
        import pyarrow as pa

        template = self.dialect.template(question, self.own.get(question.id))
        marks, values = placeholders(template, parameters, variant, "${}".format)
        text = self.dialect.text(question, parameters, marks, self.own.get(question.id))
        cursor = psycopg.RawCursor(self.connection)

        def ask():
            cursor.execute(text, values, prepare=True, binary=True)
            names = [column.name for column in cursor.description]
            columns = list(zip(*cursor.fetchall())) or [()] * len(names)
            return pa.table({name: as_column(values) for name, values in zip(names, columns)})

        return ask

    def close(self) -> None:
        self.connection.close()


class ArrowClient(Client):
    """The same with texts by ADBC; statements that change something still go by psycopg."""

    def __init__(self, address: str, uri: str, own: dict[str, str], dialect):
        import adbc_driver_postgresql.dbapi as adbc

        super().__init__(address, own, dialect)
        self.arrow = adbc.connect(uri, autocommit=True)

    def ask(self, text: str):
        with self.arrow.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

    def close(self) -> None:
        self.arrow.close()
        super().close()
