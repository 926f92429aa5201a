"""What pandas, Polars and DuckDB call things that have another name here, for the errors that name ours.

A name is an alias of a method only where both mean the same. These don't, or they would be one more name for the same.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_ROWS = {
    "arrow": "to_arrow()",
    "to_arrow_table": "to_arrow()",
    "fetch_arrow_table": "to_arrow()",
    "to_arrow_reader": "iter(…), which gives batches; pyarrow.RecordBatchReader.from_stream(…) gives a reader",
    "fetch_arrow_reader": "iter(…), which gives batches; pyarrow.RecordBatchReader.from_stream(…) gives a reader",
    "fetch_record_batch": "iter(…), which gives batches; pyarrow.RecordBatchReader.from_stream(…) gives a reader",
    "fetchdf": "df()",
    "fetch_df": "df()",
    "to_df": "df()",
    "fetchnumpy": "to_arrow(), whose columns have to_numpy()",
    "to_numpy": "df().to_numpy(), or to_arrow(), whose columns have to_numpy()",
    "values": "df().to_numpy()",
    "rows": "fetchall()",
    "iter_rows": "fetchall()",
    "iterrows": "fetchall(), or df().iterrows()",
    "itertuples": "fetchall(), or df().itertuples()",
    "to_dicts": "to_arrow().to_pylist()",
    "to_records": "df().to_records()",
    "to_dict": "to_arrow().to_pydict(), or df().to_dict()",
    "to_pydict": "to_arrow().to_pydict()",
    "to_pylist": "to_arrow().to_pylist()",
    "to_csv": "df().to_csv(path)",
    "write_csv": "pl().write_csv(path)",
    "write_parquet": "to_parquet(path)",
    "sink_parquet": "to_parquet(path)",
    "execute": "run(), or df(), pl(), to_arrow() and fetchall() for the rows",
}
"""What gives rows."""

FRAME = {
    **_ROWS,
    "fetchone": "head(1).fetchall()",
    "fetchmany": "head(5).fetchall()",
    "fetch": "head(5).fetchall()",
    "compute": "df(), pl(), to_arrow() or fetchall()",
    "show": "print(frame), or head(10).df()",
    "lazy": "pl(lazy=True), which is a lazy frame of Polars",
    "iter_slices": "iter_batches()",
    "to_batches": "iter_batches()",
    "fetch_batches": "iter_batches()",
    "schema": "dtypes",
    "collect_schema": "dtypes",
    "types": "dtypes",
    "info": "dtypes, or describe()",
    "names": "columns",
    "width": "len(frame.columns)",
    "height": "len(frame)",
    "empty": "len(frame) == 0",
    "is_empty": "len(frame) == 0",
    "summary": "describe()",
    "summarize": "describe()",
    "asof": "asof_join(other, by=…, direction=…, tolerance=…), which finds the time columns",
    "join_asof": "asof_join(other, by=…, direction=…, tolerance=…), which finds the time columns",
    "merge_asof": "asof_join(other, by=…, direction=…, tolerance=…), which finds the time columns",
    "sort_values": "sort('price', descending=True)",
    "sort_index": "sort('time')",
    "order": "sort('price', descending=True)",
    "order_by": "sort('price', descending=True)",
    "nlargest": "sort('price', descending=True).head(5)",
    "nsmallest": "sort('price').head(5)",
    "top_k": "sort('price', descending=True).head(5)",
    "bottom_k": "sort('price').head(5)",
    "drop_duplicates": "unique('symbol', keep='last'), or unique() of all columns",
    "distinct": "unique()",
    "query": "filter(splay.col('price') > 1)",
    "where": "filter(splay.col('price') > 1)",
    "loc": "filter(splay.col('price') > 1).select('time', 'price')",
    "iloc": "frame[:10], a slice of rows",
    "project": "select('time', 'price')",
    "aggregate": "group_by('symbol').agg(splay.col('price').mean()), or select(…) of aggregates alone for one row",
    "agg": "group_by('symbol').agg(splay.col('price').mean()), or select(…) of aggregates alone for one row",
    "withColumn": "with_columns(mid=(splay.col('bid') + splay.col('ask')) / 2)",
    "with_column": "with_columns(mid=(splay.col('bid') + splay.col('ask')) / 2)",
    "mutate": "with_columns(mid=(splay.col('bid') + splay.col('ask')) / 2)",
    "with_row_index": "with_columns(index=splay.row_number() - 1)",
    "with_row_count": "with_columns(index=splay.row_number() - 1)",
    "group_by_dynamic": "bucket('5m').agg(…)",
    "value_counts": "group_by('symbol').count().sort('count', descending=True)",
    "nunique": "select(splay.col('symbol').n_unique())",
    "n_unique": "select(splay.col('symbol').n_unique())",
    "count": "len(frame), or select(splay.col('price').count()) of the values that aren't null",
    "len": "len(frame)",
    "sum": "select(splay.col('size').sum())",
    "mean": "select(splay.col('price').mean())",
    "min": "select(splay.col('price').min())",
    "max": "select(splay.col('price').max())",
    "std": "select(splay.col('price').std())",
    "var": "select(splay.col('price').var())",
    "median": "select(splay.col('price').median())",
    "quantile": "select(splay.col('price').quantile(0.5))",
    "corr": "select(splay.col('bid').corr('ask'))",
    "cov": "select(splay.col('bid').cov('ask'))",
    "first": "head(1), or select(splay.col('price').first())",
    "last": "sort('time').tail(1), or select(splay.col('price').last())",
    "null_count": "describe(), or select(splay.count() - splay.col('price').count())",
    "isnull": "with_columns(gone=splay.col('price').is_null())",
    "isna": "with_columns(gone=splay.col('price').is_null())",
    "notnull": "filter(splay.col('price').is_not_null())",
    "notna": "filter(splay.col('price').is_not_null())",
    "dropna": "drop_nulls('price'), which keeps NaN",
    "drop_nans": "filter(~splay.col('price').is_nan())",
    "fillna": "with_columns(splay.col('price').fill_null(0))",
    "fill_null": "with_columns(splay.col('price').fill_null(0))",
    "fill_nan": "with_columns(splay.col('price').fill_nan(None))",
    "ffill": "with_columns(splay.col('price').forward_fill().over('symbol'))",
    "forward_fill": "with_columns(splay.col('price').forward_fill().over('symbol'))",
    "bfill": "with_columns(splay.col('price').forward_fill().over('symbol', order_by=splay.col('time').desc()))",
    "backward_fill": "with_columns(splay.col('price').forward_fill().over('symbol', order_by=splay.col('time').desc()))",
    "replace": "with_columns(side=splay.when(splay.col('side') == 'B').then('buy').otherwise(splay.col('side')))",
    "astype": "with_columns(splay.col('size').cast('float64'))",
    "cast": "with_columns(splay.col('size').cast('float64'))",
    "shift": "with_columns(before=splay.col('price').shift(1).over('symbol'))",
    "diff": "with_columns(move=splay.col('price').diff().over('symbol'))",
    "pct_change": "with_columns(move=splay.col('price').pct_change().over('symbol'))",
    "cumsum": "with_columns(total=splay.col('size').cum_sum().over('symbol'))",
    "rank": "with_columns(place=splay.col('price').rank().over('symbol'))",
    "clip": "with_columns(splay.col('price').clip(0, 100))",
    "round": "with_columns(splay.col('price').round(2))",
    "isin": "filter(splay.col('symbol').is_in(['A', 'B']))",
    "ewm": "with_columns(mean=splay.col('price').ema(span=20).over('symbol'))",
    "sample": "filter(splay.call('random') < 0.01), a share of the rows, others each time",
    "reverse": "sort('time', descending=True)",
    "melt": "UNPIVOT in SQL",
    "unpivot": "UNPIVOT in SQL",
    "explode": "unnest(…) in SQL",
    "pivot_table": "pivot('side', splay.col('size').sum(), index='symbol')",
    "union": "splay.concat([frame, other])",
    "vstack": "splay.concat([frame, other])",
    "append": "splay.concat([frame, other]); Database.write adds rows to a table",
    "extend": "splay.concat([frame, other])",
    "apply": "methods of splay.col, which the engine runs; or df().apply(…), where pandas runs the function",
    "map": "methods of splay.col, which the engine runs; or df().map(…), where pandas runs the function",
    "map_rows": "methods of splay.col, which the engine runs; or pl().map_rows(…), where Polars runs the function",
    "map_batches": "iter_batches()",
    "set_index": "df().set_index('time'); a frame has no index",
    "reset_index": "the frame as it is: it has no index",
    "index": "columns: a frame has no index, df().set_index('time') has one",
    "to_sql": "write_to('table')",
    "insert_into": "write_to('table')",
    "create": "write_to('table')",
}
"""What frames have under another name."""

ANSWER = {
    **_ROWS,
    "execute": "df(), pl(), to_arrow() or fetchall(): the statement runs already",
    "collect": "to_arrow(), df() or pl()",
    "fetchone": "fetchall(); splay.dbapi has cursors with fetchone()",
    "fetchmany": "head(5) for the first rows; splay.dbapi has cursors with fetchmany()",
    "iter_batches": "iter(answer), for batch in answer",
    "to_batches": "list(answer)",
    "show": "print(answer.df())",
    "shape": "to_arrow().shape",
    "rowcount": "to_arrow().num_rows; splay.dbapi has cursors with rowcount",
    "num_rows": "to_arrow().num_rows",
    "description": "schema, or columns; splay.dbapi has cursors with description",
    "dtypes": "schema",
    "types": "schema",
    "item": "fetchall()[0][0]",
    "to_parquet": "a lazy frame, db['trade'].filter(…).to_parquet(path), or pyarrow.parquet.write_table(answer.to_arrow(), path)",
    "write_parquet": "a lazy frame, db['trade'].filter(…).to_parquet(path), or pyarrow.parquet.write_table(answer.to_arrow(), path)",
    "sink_parquet": "a lazy frame, db['trade'].filter(…).to_parquet(path), or pyarrow.parquet.write_table(answer.to_arrow(), path)",
    "filter": "WHERE in the statement, or a lazy frame: db['trade'].filter(…)",
    "select": "columns in the statement, or a lazy frame: db['trade'].select(…)",
    "group_by": "GROUP BY in the statement, or a lazy frame: db['trade'].group_by(…)",
    "groupby": "GROUP BY in the statement, or a lazy frame: db['trade'].group_by(…)",
    "sort": "ORDER BY in the statement, or a lazy frame: db['trade'].sort(…)",
    "limit": "LIMIT in the statement, or head(5)",
    "join": "JOIN in the statement, or a lazy frame: db['trade'].join(…)",
    "describe": "SUMMARIZE before the statement, or describe() of a lazy frame",
}
"""What answers have under another name."""

TABLE = {
    "columns": "schema.names",
    "dtypes": "schema",
    "shape": "rows, and schema.names",
    "num_rows": "rows",
    "count": "rows",
    "append": "Database.write(name, frame)",
    "insert": "Database.write(name, frame)",
    "write": "Database.write(name, frame)",
    "upsert": "Database.write(name, frame, on_conflict='update'), of a reference table",
    "truncate": "delete('true')",
    "sql": "Database.sql(statement)",
}
"""What tables have under another name."""

DATABASE = {
    "query": "sql(statement)",
    "execute": "sql(statement)",
    "cursor": "splay.dbapi.connect(path), which has cursors",
    "commit": "the database without: each statement and each write is a commit of its own",
    "rollback": "Table.undo(commit)",
    "begin": "the database without: each statement and each write is a commit of its own",
    "table_names": "tables()",
    "list_tables": "tables()",
    "show_tables": "tables()",
    "schema": "table(name).schema",
    "schemas": "table(name).schema",
    "close": "the database without: nothing has to be closed",
    "get": "db[name]",
    "read": "db[name]",
    "scan": "db[name]",
    "from_df": "write(name, frame)",
    "insert": "write(name, frame)",
    "append": "write(name, frame)",
    "create_table": "write(name, frame), or CREATE TABLE by sql(…)",
    "drop_table": "table(name).drop()",
    "register": "write(name, frame) for a table; DuckDB and Polars take frames of this database as they are",
    "read_parquet": "splay.scan(files) for a frame of files, load(name, files) for a table",
    "read_csv": "splay.scan(files) for a frame of files, load(name, files) for a table",
    "load_csv": "load(name, files)",
    "load_parquet": "load(name, files)",
    "copy": "load(name, files), or COPY by sql(…)",
}
"""What databases and clients have under another name."""

TABLES = "a table is db['{name}'], their names are db.tables()"
"""How a table is named, for who writes ``db.trade``."""

CURSOR = {
    "df": "fetch_df()",
    "fetchdf": "fetch_df()",
    "arrow": "fetch_arrow_table()",
    "to_arrow": "fetch_arrow_table()",
    "pl": "polars.from_arrow(cursor.fetch_arrow_table())",
    "fetch_all": "fetchall()",
    "fetch_one": "fetchone()",
    "sql": "execute(statement)",
    "query": "execute(statement)",
}
"""What cursors and connections of DB-API have under another name."""

WRITER = {
    "write": "append_frame(frame), append_rows(rows) or append(price=1.5)",
    "insert": "append(price=1.5)",
    "send": "append(price=1.5), and flush() to wait for the ack",
    "add": "append(price=1.5)",
    "append_row": "append(price=1.5)",
    "row": "append(price=1.5)",
    "extend": "append_rows(rows)",
    "append_df": "append_frame(frame)",
    "dataframe": "append_frame(frame)",
    "commit": "flush()",
}
"""What writers have under another name."""

EXPRESSION = {
    "isin": "is_in([…])",
    "isna": "is_null(), and is_nan() for NaN",
    "isnull": "is_null()",
    "notna": "is_not_null()",
    "notnull": "is_not_null()",
    "is_not_nan": "~col.is_nan()",
    "fillna": "fill_null(0), and fill_nan(0) for NaN",
    "astype": "cast('float64')",
    "nunique": "n_unique(), which counts null as one value",
    "unique": "frame.select('symbol').unique()",
    "value_counts": "frame.group_by('symbol').count().sort('count', descending=True)",
    "describe": "frame.select('price').describe()",
    "dtype": "frame.dtypes['price']",
    "hist": "frame.plot.histogram('price')",
    "plot": "frame.plot",
    "cumsum": "cum_sum()",
    "cummax": "cum_max()",
    "cummin": "cum_min()",
    "cumprod": "cum_prod()",
    "cumcount": "cum_count()",
    "ffill": "forward_fill().over('symbol')",
    "bfill": "forward_fill().over('symbol', order_by=splay.col('time').desc())",
    "backward_fill": "forward_fill().over('symbol', order_by=splay.col('time').desc())",
    "interpolate": "frame.bucket('1m', fill='linear').agg(…)",
    "lag": "shift(1)",
    "lead": "shift(-1)",
    "nlargest": "frame.sort('price', descending=True).head(5)",
    "nsmallest": "frame.sort('price').head(5)",
    "top_k": "frame.sort('price', descending=True).head(5)",
    "bottom_k": "frame.sort('price').head(5)",
    "map": "methods of expressions, which the engine runs; or frame.df(), where pandas runs the function",
    "apply": "methods of expressions, which the engine runs; or frame.df(), where pandas runs the function",
    "map_elements": "methods of expressions, which the engine runs; or frame.pl(), where Polars runs the function",
    "map_batches": "methods of expressions, which the engine runs; or frame.pl(), where Polars runs the function",
    "where": "splay.when(condition).then(col)",
    "mask": "splay.when(~condition).then(col)",
    "replace": "splay.when(col == old).then(new).otherwise(col), or null_if(old)",
    "cut": "bucket(width), or splay.when(…).then(…)",
    "qcut": "splay.call('ntile', 4, kind='window').over(order_by='price')",
    "ewm": "ema(span=20)",
    "ewm_mean": "ema(span=20), which begins with the first value: adjust=False of Polars",
    "expanding": "cum_sum(), cum_max() and their kin, or mean().over('symbol', order_by='time', rows=(None, 0))",
    "rolling_var": "var().rolling(20)",
    "rolling_median": "median().rolling(20)",
    "rolling_quantile": "quantile(0.9).rolling(20)",
    "rolling_skew": "skew().rolling(20)",
    "rolling_corr": "corr('other').rolling(20)",
    "rolling_cov": "cov('other').rolling(20)",
    "rolling_count": "count().rolling(20)",
    "add": "+",
    "sub": "-",
    "subtract": "-",
    "mul": "*",
    "multiply": "*",
    "div": "/",
    "truediv": "/",
    "divide": "/",
    "mod": "%",
    "pow": "**",
    "neg": "a minus before it",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "not_": "~",
    "log1p": "(col + 1).log()",
    "log2": "log(2)",
    "expm1": "exp() - 1",
    "square": "** 2",
    "prod": "product()",
    "sem": "std() / splay.col('price').count().sqrt()",
    "kurt": "kurtosis()",
    "stddev": "std()",
    "avg": "mean()",
    "first_value": "first()",
    "last_value": "last()",
    "idxmax": "splay.col('time').arg_max('price')",
    "idxmin": "splay.col('time').arg_min('price')",
    "argmax": "splay.col('time').arg_max('price')",
    "argmin": "splay.col('time').arg_min('price')",
    "weighted_avg": "wavg('size')",
    "len": "splay.count()",
    "size": "splay.count()",
    "is_duplicated": "splay.count().over('symbol') > 1",
    "is_unique": "splay.count().over('symbol') == 1",
    "duplicated": "splay.count().over('symbol') > 1",
    "is_first_distinct": "splay.row_number().over('symbol') == 1",
    "name": "alias(name)",
    "prefix": "alias(name)",
    "suffix": "alias(name)",
    "rename": "alias(name)",
    "drop_nulls": "frame.drop_nulls('price')",
    "dropna": "frame.drop_nulls('price')",
    "head": "frame.select('price').head()",
    "tail": "frame.select('price').tail()",
    "limit": "frame.select('price').head()",
    "sort": "frame.sort('price')",
    "sort_values": "frame.sort('price')",
    "sample": "frame.filter(splay.call('random') < 0.01)",
    "reverse": "frame.sort('time', descending=True)",
    "agg": "mean(), max() and their kin, each by itself",
    "to_frame": "frame.select('price')",
    "to_pandas": "frame.select('price').df()",
    "df": "frame.select('price').df()",
    "to_polars": "frame.select('price').pl()",
    "pl": "frame.select('price').pl()",
    "to_series": "frame.select('price').pl()",
    "values": "to_numpy()",
    "tolist": "to_list()",
    "collect": "to_arrow(), to_list() or to_numpy()",
    "groupby": "over('symbol'), or frame.group_by('symbol')",
    "group_by": "over('symbol'), or frame.group_by('symbol')",
    "transform": "over('symbol')",
    "resample": "frame.bucket('5m').agg(…)",
}
"""What expressions have under another name."""

TEXT = {
    "len": "len_chars()",
    "len_bytes": "splay.call('octet_length', col)",
    "lower": "to_lowercase()",
    "upper": "to_uppercase()",
    "strip": "strip_chars()",
    "trim": "strip_chars()",
    "lstrip": "splay.call('ltrim', col)",
    "rstrip": "splay.call('rtrim', col)",
    "strip_chars_start": "splay.call('ltrim', col)",
    "strip_chars_end": "splay.call('rtrim', col)",
    "startswith": "starts_with(prefix)",
    "endswith": "ends_with(suffix)",
    "match": "contains('^…')",
    "fullmatch": "contains('^…$')",
    "replace": "replace_all(old, new); for a regular expression splay.call('regexp_replace', col, pattern, new)",
    "split": "split_part(separator, place)",
    "get": "slice(place, 1)",
    "head": "slice(0, n)",
    "extract": "splay.call('regexp_match', col, pattern)",
    "findall": "splay.call('regexp_match', col, pattern)",
    "count": "splay.call('regexp_count', col, pattern)",
    "count_matches": "splay.call('regexp_count', col, pattern)",
    "find": "splay.call('strpos', col, text), which counts from 1",
    "zfill": "splay.call('lpad', col, 4, '0')",
    "pad": "splay.call('lpad', col, 4, '0')",
    "pad_start": "splay.call('lpad', col, 4, ' ')",
    "pad_end": "splay.call('rpad', col, 4, ' ')",
    "rjust": "splay.call('lpad', col, 4, ' ')",
    "ljust": "splay.call('rpad', col, 4, ' ')",
    "reverse": "splay.call('reverse', col)",
    "title": "splay.call('initcap', col)",
    "to_titlecase": "splay.call('initcap', col)",
    "cat": "splay.concat_str([…])",
    "concat": "splay.concat_str([…])",
    "join": "splay.concat_str([…])",
    "strptime": "to_time('%Y-%m-%d %H:%M:%S')",
    "to_datetime": "to_time('%Y-%m-%d %H:%M:%S')",
    "to_date": "to_time('%Y-%m-%d').dt.date()",
    "to_integer": "splay.col('x').cast('int64')",
    "to_decimal": "splay.col('x').cast('decimal(18,4)')",
    "contains_any": "contains('a|b')",
}
"""What texts have under another name."""

TIME = {
    "floor": "bucket('5m')",
    "normalize": "truncate('day')",
    "tz_convert": "to_zone('America/New_York')",
    "convert_time_zone": "to_zone('America/New_York')",
    "strftime": "to_text('%Y-%m-%d')",
    "to_string": "to_text('%Y-%m-%d')",
    "day_name": "to_text('%A')",
    "month_name": "to_text('%B')",
    "dayofweek": "weekday(), 1 on Monday",
    "day_of_week": "weekday(), 1 on Monday",
    "dayofyear": "ordinal_day()",
    "day_of_year": "ordinal_day()",
    "weekofyear": "week()",
    "isocalendar": "week()",
    "timestamp": "epoch('us')",
    "millisecond": "epoch('ms') % 1000",
    "microsecond": "epoch('us') % 1000000",
    "nanosecond": "epoch('ns') % 1000000000",
    "month_start": "truncate('month')",
    "total_milliseconds": "total_seconds() * 1e3",
    "total_microseconds": "total_seconds() * 1e6",
    "total_nanoseconds": "total_seconds() * 1e9",
    "total_minutes": "total_seconds() / 60",
    "total_hours": "total_seconds() / 3600",
    "total_days": "total_seconds() / 86400",
    "seconds": "total_seconds()",
    "days": "total_seconds() / 86400",
    "to_period": "truncate('month')",
}
"""What times have under another name."""

GROUPS = {
    "aggregate": "agg(splay.col('price').mean())",
    "apply": "agg(…) with aggregates of splay.col; or df().groupby(…).apply(…), where pandas runs the function",
    "map_groups": "agg(…) with aggregates of splay.col; or pl().group_by(…).map_groups(…), where Polars runs the function",
    "pipe": "agg(…)",
    "transform": "with_columns(splay.col('price').mean().over('symbol')) of the frame",
    "shift": "with_columns(splay.col('price').shift(1).over('symbol')) of the frame",
    "diff": "with_columns(splay.col('price').diff().over('symbol')) of the frame",
    "pct_change": "with_columns(splay.col('price').pct_change().over('symbol')) of the frame",
    "cumsum": "with_columns(splay.col('size').cum_sum().over('symbol')) of the frame",
    "cumcount": "with_columns(splay.row_number().over('symbol') - 1) of the frame",
    "rank": "with_columns(splay.col('price').rank().over('symbol')) of the frame",
    "rolling": "with_columns(splay.col('price').rolling_mean(20).over('symbol')) of the frame",
    "ffill": "with_columns(splay.col('price').forward_fill().over('symbol')) of the frame",
    "head": "filter(splay.row_number().over('symbol') <= 5) of the frame",
    "nth": "filter(splay.row_number().over('symbol') == 1) of the frame",
    "filter": "filter(splay.count().over('symbol') > 1) of the frame, or filter(…) behind agg",
    "resample": "bucket('5m', by='symbol') of the frame",
    "nunique": "n_unique() of columns, which counts null as one value",
    "prod": "agg(splay.col('price').product())",
    "value_counts": "agg(splay.count()) of groups by that column, too",
    "ngroups": "len(groups.count())",
    **{
        name: f"[['price', 'size']].{name}() for the columns that are meant"
        for name in ("sum", "mean", "min", "max", "first", "last", "median", "std", "var", "n_unique", "quantile")
    },
}
"""What groups have under another name."""

PLOTS = {
    "hist": "histogram('price')",
    "ohlc": "candles('5m')",
    "candlestick": "candles('5m')",
    "scatter": "heatmap('time', 'price'), which reads any number of rows, or frame.df().plot.scatter(…)",
    "hexbin": "heatmap('time', 'price')",
    "area": "line('price')",
    "bar": "frame.df().plot.bar(…) of groups",
    "barh": "frame.df().plot.barh(…) of groups",
    "box": "frame.df().plot.box(…)",
}
"""What plots are called elsewhere."""

PREPARED = {
    name: f"run(params).{name}()" for name in ("df", "pl", "to_arrow", "to_pandas", "to_polars", "fetchall", "head")
} | {"execute": "run(params)", "sql": "run(params)", "bind": "run(params)"}
"""What prepared statements have under another name."""

SCHEMA = {
    "items": "zip(schema.names, schema.types)",
    "keys": "names",
    "values": "types",
    "fields": "names and types, or to_arrow()",
    "columns": "names",
    "dtypes": "types",
    "to_python": "dict(zip(schema.names, schema.types))",
}
"""What schemas have under another name."""

MODULE = {
    "read_parquet": "splay.scan(files)",
    "read_csv": "splay.scan(files)",
    "read_ipc": "splay.scan(files)",
    "scan_parquet": "splay.scan(files)",
    "scan_csv": "splay.scan(files)",
    "read_table": "splay.open(path)[name]",
    "sql": "splay.open(path).sql(statement)",
    "query": "splay.open(path).sql(statement)",
    "execute": "splay.open(path).sql(statement)",
    "Connection": "splay.dbapi.connect(path)",
    "DataFrame": "Database.write(name, frame) for a frame of pandas, Polars or pyarrow",
    "LazyFrame": "splay.scan(files), or splay.open(path)[name]",
    "from_pandas": "Database.write(name, frame)",
    "from_polars": "Database.write(name, frame)",
    "from_arrow": "Database.write(name, frame)",
    "len": "splay.count()",
    "all": "frame.columns, which select takes as a list",
    "struct": "splay.call('named_struct', 'price', splay.col('price'))",
    "date_range": "generate_series(…) in SQL",
    "merge": "frame.join(other, 'symbol')",
    "merge_asof": "frame.asof_join(other)",
    "to_datetime": "splay.col('text').str.to_time(pattern)",
    "cut": "splay.col('price').bucket(width)",
    "corr": "splay.col('bid').corr('ask')",
    "cov": "splay.col('bid').cov('ask')",
    "format": "splay.concat_str([…])",
    **{
        name: f"splay.col('price').{name}()"
        for name in ("sum", "mean", "min", "max", "first", "last", "median", "std", "var", "n_unique", "quantile", "cum_sum")
    },
}
"""What the package has under another name."""


def similar(name: str, existing: Iterable[str]) -> list[str]:
    """At most three names that are like one, whatever their case, or of which a word begins with it.

    >>> from splay._elsewhere import similar
    >>> similar("symbo", ["Symbol", "Trade_Price"]), similar("Pric", ["Symbol", "Trade_Price"])
    (['Symbol'], ['Trade_Price'])
    """
    written = {one.lower(): one for one in existing}
    close = difflib.get_close_matches(name.lower(), written, 3)
    if len(name) > 2:
        close += [one for one in written if one not in close and any(word.startswith(name.lower()) for word in one.split("_"))]
    return [written[one] for one in close[:3]]


def missing(owner: str, name: str, elsewhere: Mapping[str, str], existing: Iterable[str] = (), otherwise: str = "") -> AttributeError:
    """The error of a name that isn't there: what it is called here, else what is close, and what else there is.

    >>> from splay._elsewhere import EXPRESSION, missing
    >>> missing("an expression", "isin", EXPRESSION)
    AttributeError("an expression has no 'isin': use is_in([…])")
    """
    if name in elsewhere:
        return AttributeError(f"{owner} has no {name!r}: use {elsewhere[name]}")
    close = similar(name, [one for one in existing if not one.startswith("_")])
    guess = f" (did you mean {' or '.join(close)}?)" if close else ""
    return AttributeError(f"{owner} has no {name!r}{guess}" + (f"; {otherwise}" if otherwise else ""))


def refusal(owner: str, elsewhere: Mapping[str, str], otherwise: str = "") -> Callable[[Any, str], Any]:
    """The ``__getattr__`` of a class, which is asked for names that it doesn't have.

    Parameters
    ----------
    owner
        What an object of the class is called in the error.
    elsewhere
        What is called otherwise here.
    otherwise
        What else there is, for names that aren't called otherwise; ``{name}`` is the name.
    """

    def __getattr__(self: Any, name: str) -> Any:
        # Libraries ask for protocols by such names, and no one mistypes them.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise missing(owner, name, elsewhere, dir(type(self)), otherwise.format(name=name))

    return __getattr__
