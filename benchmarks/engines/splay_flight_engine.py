"""SplayDB as a server, asked over Flight SQL by ADBC's driver: the columnar way from other processes.

A text is sent by a cursor of its own, so that the driver doesn't keep it prepared; a prepared statement is a cursor that runs one
text again with other values, which the driver prepares once.
"""

from .splay_http_engine import Engine as Server
from .translate import never_seen, placeholders


class Client:
    """A connection; ``text`` renders a question's statement."""

    def __init__(self, address: tuple[str, int], text):
        import adbc_driver_flightsql.dbapi as adbc

        self.connection = adbc.connect(f"grpc://{address[0]}:{address[1]}", autocommit=True)
        self.text = text
        self.statements = {}

    def ask(self, statement: str):
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetch_arrow_table()

    def prepare(self, question, parameters, variant):
        statement = self.text(question, parameters, variant)
        return lambda: self.ask(statement)

    def unseen(self, question, parameters, variant, mark: int):
        statement = never_seen(self.text(question, parameters, variant), mark)
        return lambda: self.ask(statement)

    def prepared(self, question, parameters, variant):
        marks, values = placeholders(question.sql, parameters, variant, "${}".format)
        if question.id not in self.statements:
            self.statements[question.id] = (self.connection.cursor(), self.text(question, parameters, marks))
        cursor, statement = self.statements[question.id]

        def ask():
            cursor.execute(statement, values)
            return cursor.fetch_arrow_table()

        return ask

    def close(self) -> None:
        for cursor, _ in self.statements.values():
            cursor.close()
        self.connection.close()


class Engine(Server):
    name = "splay-flight"
    title = "SplayDB, Flight SQL"
    takes_cold = False
    requirements = ("adbc-driver-flightsql==1.13.0", "adbc-driver-manager==1.13.0", "numpy", "pyarrow==26.0.1")
    starts = "`splay serve`, started by the worker, bound to 127.0.0.1; asked over Flight SQL by ADBC's driver"
    transport = "Flight SQL, Arrow"
    best = "The tables of SplayDB in process, behind `splay serve`; ADBC's driver, a connection that is kept; answers as Arrow."

    def session(self):
        return Client(self.addresses["flight"], self.text)
