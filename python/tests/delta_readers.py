"""Engines that read a Delta table, each giving all rows as an Arrow table with times in UTC and texts as strings.

``READERS`` has them by name. One that isn't installed raises :class:`Absent` with the reason.
"""

import contextlib
import importlib
import os
import pathlib
import shutil
import types
from collections.abc import Callable

import pyarrow as pa


class Absent(Exception):
    """The engine isn't here."""


def module(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise Absent(f"{name} isn't installed: {missing}") from None


def deltalake(folder: pathlib.Path) -> pa.Table:
    return module("deltalake").DeltaTable(folder).to_pyarrow_table()


def polars(folder: pathlib.Path) -> pa.Table:
    module("deltalake")
    return module("polars").scan_delta(str(folder)).collect().to_arrow()


def duckdb(folder: pathlib.Path) -> pa.Table:
    """By its extension, where that can be loaded."""
    connection = module("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("set timezone = 'UTC'")
    try:
        connection.execute(f"load '{extension()}'")
    except Exception as error:
        raise Absent(f"DuckDB's extension delta can't be loaded: {error}") from None
    return connection.sql(f"select * from delta_scan('{folder}')").to_arrow_table()


def extension() -> str:
    """The extension's file of SPLAY_DUCKDB_DELTA, or its name, under which DuckDB finds one that is installed."""
    return os.environ.get("SPLAY_DUCKDB_DELTA", "delta")


def duckdb_by_deltalake(folder: pathlib.Path) -> pa.Table:
    """Without the extension: deltalake finds the files, DuckDB reads them through Arrow."""
    trade = module("deltalake").DeltaTable(folder).to_pyarrow_dataset()  # noqa: F841
    connection = module("duckdb").connect()
    connection.execute("set timezone = 'UTC'")
    return connection.sql("select * from trade").to_arrow_table()


def chdb(folder: pathlib.Path) -> pa.Table:
    """It reads files below the working folder only."""
    engine = module("chdb")
    with contextlib.chdir(folder):
        return engine.query(f"select * from deltaLakeLocal('{folder}')", "ArrowTable")


def spark(folder: pathlib.Path) -> pa.Table:
    return spark_session().read.format("delta").load(str(folder)).toArrow()


_SPARK: list[object] = []


def spark_session() -> types.ModuleType:
    """One session for all tests: it takes seconds to start."""
    if not _SPARK:
        module("pyspark")
        configure = module("delta").configure_spark_with_delta_pip
        if shutil.which("java") is None:
            raise Absent("PySpark needs Java, and there is no java")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[1]")
        for key, value in {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "1",
        }.items():
            builder = builder.config(key, value)
        try:
            _SPARK.append(configure(builder).getOrCreate())
        except Exception as error:
            raise Absent(f"Spark doesn't start with Delta's classes: {error}") from None
    return _SPARK[0]


def stop_spark() -> None:
    while _SPARK:
        _SPARK.pop().stop()


READERS: dict[str, Callable[[pathlib.Path], pa.Table]] = {
    "deltalake": deltalake,
    "polars": polars,
    "duckdb": duckdb,
    "duckdb by deltalake": duckdb_by_deltalake,
    "chdb": chdb,
    "spark": spark,
}
