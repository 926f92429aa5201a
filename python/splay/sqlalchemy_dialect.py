"""A dialect of SQLAlchemy: ``create_engine("splay:///market")`` for a folder, ``create_engine("splay+http://host:7750")`` for a server.

The package registers it; it needs SQLAlchemy 2 (``pip install 'splay[sqlalchemy]'``).

- Tables, views and their columns are reflected. There are no keys, constraints and indexes.
- Each statement that writes is a commit of its own, so ``AUTOCOMMIT`` is the isolation level; a rollback behind one is refused.
- Options of :func:`splay.open` go into the URL: ``splay:///market?memory_bytes=1000000000``. The token of a server is its password:
  ``splay+https://:token@host``.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy import exc, types
from sqlalchemy.engine import URL, default, reflection
from sqlalchemy.sql import compiler

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.engine.interfaces import ReflectedColumn

_INTEGERS = {"int8", "int16", "int32", "uint8", "uint16"}
_LARGE = {"int64", "uint32", "uint64"}
_OPTIONS = {"memory_bytes": int, "threads": int, "batch_rows": int, "result_cache_bytes": int, "file_cache_bytes": int, "timeout_seconds": float}
_FLAGS = {"create", "journal"}


class Levels(types.UserDefinedType[list[float]]):
    """Numbers of the levels of an order book, a list of fixed length."""

    cache_ok = True

    def __init__(self, count: int):
        self.count = count

    def get_col_spec(self, **_: Any) -> str:
        """Its name in SQL."""
        return f"levels({self.count})"


class _Words(compiler.GenericTypeCompiler):
    """Names of types as SplayDB has them."""

    def visit_datetime(self, type_: Any, **_: Any) -> str:
        return "timestamptz"

    visit_DATETIME = visit_TIMESTAMP = visit_timestamp = visit_datetime  # noqa: N815

    def visit_large_binary(self, type_: Any, **_: Any) -> str:
        raise exc.CompileError("SplayDB has no binary columns")

    def visit_float(self, type_: Any, **_: Any) -> str:
        return "double precision"

    visit_FLOAT = visit_REAL = visit_DOUBLE = visit_DOUBLE_PRECISION = visit_float  # noqa: N815

    def visit_text(self, type_: Any, **_: Any) -> str:
        return "varchar"

    visit_TEXT = visit_VARCHAR = visit_NVARCHAR = visit_string = visit_unicode = visit_unicode_text = visit_text  # noqa: N815


class _Compiler(compiler.SQLCompiler):
    """Statements as SplayDB has them."""

    def visit_truediv_binary(self, binary: Any, operator: Any, **words: Any) -> str:
        left, right = self.process(binary.left, **words), self.process(binary.right, **words)
        # Whole numbers would be divided to whole ones.
        is_whole = binary.right.type._type_affinity is types.Integer
        return f"{left} / CAST({right} AS double precision)" if is_whole else f"{left} / {right}"

    def for_update_clause(self, select: Any, **_: Any) -> str:
        raise exc.CompileError("SplayDB has no row locks: FOR UPDATE isn't there")

    def update_from_clause(self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **words: Any) -> str:
        return f"FROM {self._joined(extra_froms, from_hints, words)}"

    def delete_extra_from_clause(self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **words: Any) -> str:
        return f"USING {self._joined(extra_froms, from_hints, words)}"

    def _joined(self, tables: Any, hints: Any, words: dict[str, Any]) -> str:
        words["asfrom"] = True
        return ", ".join(table._compiler_dispatch(self, fromhints=hints, **words) for table in tables)


class _Definitions(compiler.DDLCompiler):
    """Tables as SplayDB has them: columns, and nothing about them."""

    def visit_primary_key_constraint(self, constraint: Any, **_: Any) -> str:
        if list(constraint.columns):
            raise exc.CompileError("SplayDB has no primary keys: leave primary_key out")
        return ""

    def _refused(self, constraint: Any, *_: Any, **__: Any) -> Any:
        raise exc.CompileError(f"SplayDB has no {type(constraint).__name__}")

    def visit_computed_column(self, generated: Any, **_: Any) -> str:
        raise exc.CompileError("SplayDB has no computed columns but the date of every table, which is there by itself: leave it out")

    visit_foreign_key_constraint = visit_unique_constraint = visit_check_constraint = _refused
    visit_create_index = _refused  # type: ignore[assignment]

    def get_column_default_string(self, column: Any) -> str | None:
        if column.server_default is not None:
            raise exc.CompileError(f"column {column.name}: SplayDB has no default values")
        return None


class SplayDialect(default.DefaultDialect):
    """A database folder by :mod:`splay.dbapi`."""

    name = "splay"
    driver = "folder"
    default_paramstyle = "qmark"
    statement_compiler = _Compiler
    type_compiler_cls = _Words
    ddl_compiler = _Definitions
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_multi_rowcount = False
    supports_default_values = False
    supports_multivalues_insert = True
    supports_alter = False
    supports_sequences = False
    postfetch_lastrowid = False
    insert_returning = update_returning = delete_returning = False
    max_identifier_length = 255
    default_schema_name = None
    is_remote = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module that runs statements."""
        from splay import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """What :func:`splay.dbapi.connect` is called with."""
        options = _options(url.query)
        if not self.is_remote:
            if url.host or not url.database:
                raise exc.ArgumentError("the URL of a folder has three slashes and its path: splay:///market, splay:////data/market")
            return [url.database], options
        if not url.host or url.database:
            raise exc.ArgumentError("the URL of a server is splay+http://host:port")
        # A token alone is the user or the password.
        token = url.password or url.username
        place = f"{url.host}:{url.port}" if url.port else url.host
        return [f"{self.driver}://{place}"], options | ({"token": token} if token else {})

    # Transactions

    def get_default_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT"

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        return ["AUTOCOMMIT"]

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the connection lives."""
        dbapi_connection.database.tables()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether the connection must be made anew. Connections to servers mend themselves."""
        return False

    # What there is

    def get_schema_names(self, connection: "Connection", **_: Any) -> list[str]:
        return []

    def get_table_names(self, connection: "Connection", schema: str | None = None, **_: Any) -> list[str]:
        tables: list[str] = [] if schema else _database(connection).tables()
        return tables

    def get_view_names(self, connection: "Connection", schema: str | None = None, **_: Any) -> list[str]:
        return [] if schema else [name for name, _query in self._views(connection)]

    def get_view_definition(self, connection: "Connection", view_name: str, schema: str | None = None, **_: Any) -> str:
        if not schema and (view := self._view(connection, view_name)):
            return view[1]
        raise exc.NoSuchTableError(view_name)

    def has_table(self, connection: "Connection", table_name: str, schema: str | None = None, **_: Any) -> bool:
        return schema is None and (table_name in _database(connection) or self._view(connection, table_name) is not None)

    @reflection.cache  # type: ignore[untyped-decorator, unused-ignore]
    def get_columns(self, connection: "Connection", table_name: str, schema: str | None = None, **_: Any) -> "list[ReflectedColumn]":
        if not schema and (view := self._view(connection, table_name)):
            fields = _database(connection).sql(f'SELECT * FROM "{view[0]}" LIMIT 0').to_arrow().schema
            return [{"name": field.name, "type": _type(_named(field.type)), "nullable": field.nullable, "default": None} for field in fields]
        table = self._table(connection, table_name, schema)
        stored = table.columns if hasattr(table, "columns") else dict(zip(table.schema.names, table.schema.types))
        columns: list[ReflectedColumn] = [
            {"name": name, "type": _type(kind), "nullable": name != table.time, "default": None} for name, kind in stored.items()
        ]
        if "date" not in (name.lower() for name in stored):
            # Every table has it by itself; a computed column is read and never written.
            computed: Any = {"sqltext": f"date of {table.time}", "persisted": False}
            columns.append({"name": "date", "type": types.Date(), "nullable": False, "default": None, "computed": computed})
        return columns

    def get_pk_constraint(self, connection: "Connection", table_name: str, schema: str | None = None, **_: Any) -> Any:
        self._none(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _none(self, connection: "Connection", table_name: str, schema: str | None = None, **_: Any) -> Any:
        if schema or not self._view(connection, table_name):
            self._table(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _none

    def get_table_comment(self, connection: "Connection", table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"text": None}

    def _views(self, connection: "Connection") -> list[tuple[str, str]]:
        """Names and queries of the views."""
        shown = "select table_name from information_schema.tables where table_type = 'VIEW'"
        query = f"select table_name, definition from information_schema.views where table_name in ({shown}) order by 1"
        return [(name, definition or "") for name, definition in connection.exec_driver_sql(query)]

    def _view(self, connection: "Connection", name: str) -> tuple[str, str] | None:
        """A view by its name, if there is one and no table has the name."""
        return next((view for view in self._views(connection) if view[0].lower() == name.lower()), None)

    def _table(self, connection: "Connection", name: str, schema: str | None) -> Any:
        from splay.errors import NoSuchTableError

        if schema:
            raise exc.NoSuchTableError(f"{schema}.{name}: tables of SplayDB belong to no schema")
        try:
            return _database(connection).table(name)
        except NoSuchTableError as error:
            raise exc.NoSuchTableError(name) from error

    def _get_server_version_info(self, connection: Any) -> Any:
        return None

    def _get_default_schema_name(self, connection: Any) -> Any:
        return None


class SplayHttpDialect(SplayDialect):
    """A server by HTTP."""

    driver = "http"
    is_remote = True
    supports_statement_cache = True


class SplayHttpsDialect(SplayHttpDialect):
    """A server by HTTP over TLS."""

    driver = "https"
    supports_statement_cache = True


def _database(connection: "Connection") -> Any:
    """The database or client of a connection."""
    return connection.connection.dbapi_connection.database  # type: ignore[union-attr]


def _options(query: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in query.items():
        if name in _OPTIONS:
            options[name] = _OPTIONS[name](value)
        elif name in _FLAGS and value in ("true", "false"):
            options[name] = value == "true"
        else:
            raise exc.ArgumentError(f"the URL's option {name}={value} isn't one of splay.open: {', '.join([*_OPTIONS, *sorted(_FLAGS)])}")
    return options


def _named(kind: Any) -> str:
    """The column type of SplayDB that an Arrow type of an answer is closest to."""
    name = str(kind)
    if name.startswith(("timestamp", "dictionary")):
        return "timestamp" if name.startswith("timestamp") else "symbol"
    if name.startswith("decimal"):
        return f"decimal({kind.precision},{kind.scale})"
    others = {"double": "float64", "float": "float32", "string": "text", "large_string": "text", "string_view": "text"}
    return others.get(name, name.removesuffix("32[day]").removesuffix("64[ns]"))


def _type(name: str) -> types.TypeEngine[Any]:
    """The type of SQLAlchemy of a column type of SplayDB."""
    if name in _INTEGERS:
        return types.SmallInteger() if name in ("int8", "int16", "uint8") else types.Integer()
    if name in _LARGE:
        return types.BigInteger()
    if name.startswith("decimal("):
        precision, scale = name[len("decimal(") : -1].split(",")
        return types.Numeric(int(precision), int(scale))
    if name.startswith("levels("):
        return Levels(int(name[len("levels(") : -1]))
    plain: dict[str, types.TypeEngine[Any]] = {
        "bool": types.Boolean(),
        "float32": types.Float(24),
        "float64": types.Float(53),
        "date": types.Date(),
        "time": types.Time(),
        "timestamp": types.DateTime(timezone=True),
        "symbol": types.String(),
        "text": types.String(),
    }
    return plain.get(name, types.NullType())
