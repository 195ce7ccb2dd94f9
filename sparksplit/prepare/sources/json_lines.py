"""JSON with an object on each line. Python checks which lines are one object, and Spark reads the values.

Spark alone would leave out what follows a line's first value. It would also read a list as rows, and `null` as nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hdfs_io.listing import Found
from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.cells import short
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.line_numbers import ROW_TEXT, line_mark_sql
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import METADATA
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LINE, _FILE, _PROBLEM = "sparksplit: the line", "sparksplit: the file", "sparksplit: the problem"
_JUDGED, _SHOWN = "sparksplit: judged", "sparksplit: the line as shown"
_BROKEN, _VALUES, _WHOLE = "sparksplit: broken", "sparksplit: the values", "sparksplit: whole"
"""Our own columns. No user's key has these names."""
_ROW = f"CASE WHEN `{_PROBLEM}` IS NOT NULL THEN {line_mark_sql(f'`{_LINE}`')} END"
# A line that has a problem may not be UTF-8. Only Python's text of it is.
_TEXT = f"coalesce(`{_SHOWN}`, left(`{_LINE}`, {ROW_TEXT}))"
_BAD = f"CASE WHEN `{_PROBLEM}` IS NOT NULL THEN named_struct('r', `{_PROBLEM}`, 't', {_TEXT}, 'f', false) END"

_BLANK = " \t\r\n"
_NO_OBJECT = "is not a JSON object"
_UNFIT = "has a value of another type than its column, such as an empty text among numbers"


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read files of JSON lines. Raise InputError if no line is an object.

    Keys that differ only in case are columns of their own.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        lines = _lines(spark, found)
        schema = _schema(spark, lines)
        if not schema.fields:
            raise InputError(
                f"{config.place}: no line is a JSON object; write each row as one JSON object on its own line"
            )
        doubles = [field.name for field in schema if field.dataType == DoubleType()]
        good = sql.when(sql.col(_PROBLEM).isNull(), sql.col(_LINE))
        wanted = StructType([*schema.fields, StructField(_BROKEN, StringType())])
        texts = StructType([StructField(name, StringType()) for name in doubles])
        read = lines.select(
            "*",
            sql.from_json(good, wanted, {"columnNameOfCorruptRecord": _BROKEN}).alias(_VALUES),
            (sql.from_json(good, texts) if doubles else sql.lit(None)).alias(_WHOLE),
        )
        values, whole = sql.col(_VALUES), sql.col(_WHOLE)
        fields = [(field.name, values.getField(field.name), field.dataType == StringType()) for field in schema]
        columns = [(_text(value) if text else value).alias(name) for name, value, text in fields]
        exact = {name: f"{_WHOLE} {place}" for place, name in enumerate(doubles)}
        numbers = [_whole(whole.getField(name)).alias(column) for name, column in exact.items()]
        unfit = sql.when(values.getField(_BROKEN).isNotNull(), sql.lit(_UNFIT))
        problem = sql.coalesce(sql.col(_PROBLEM), unfit).alias(_PROBLEM)
        frame = read.select(*columns, *numbers, _FILE, _LINE, _SHOWN, problem)
    hidden = (*exact.values(), _FILE, _LINE, _SHOWN, _PROBLEM)
    return RawFrame(frame, f"`{_FILE}`", row=_ROW, bad=_BAD, hidden=hidden, exact=exact)


def line_problem(line: bytes) -> str | None:
    """Return why a line is not exactly one JSON object, or None if it is."""
    try:
        text = line.decode().strip(_BLANK)
        if not text.startswith("{"):
            return _NO_OBJECT
        _, end = _DECODER.raw_decode(text)
    except _TwiceError as error:
        return f"has the key {short(error.args[0])} twice"
    except (ValueError, RecursionError):
        return _NO_OBJECT
    return None if end == len(text) else "has text after its JSON object"


def _judged(line: bytes) -> tuple[str, str] | None:
    """Return (a bad line's problem, its text to show), or None for a good line.

    Spark cannot make that text in all versions: its `decode` raises for bytes that are not UTF-8 in Spark 4.
    """
    problem = line_problem(line)
    return None if problem is None else (problem, line.decode(errors="replace")[:ROW_TEXT])


class _TwiceError(Exception):
    """An object has this key twice."""


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Raise _TwiceError if a key occurs twice."""
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)


def _lines(spark: SparkSession, found: Found) -> DataFrame:
    """Return the lines that are not blank, each with its file, and with a problem and a text to show if it is bad."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType, StructField, StructType

    reader = spark.read.options(**EVERY_FOLDER)
    frame = reader.schema(StructType([StructField(_LINE, StringType())])).text(found.roots)
    line = sql.col(_LINE)
    kind = StructType([StructField(name, StringType()) for name in (_PROBLEM, _SHOWN)])
    # Without Arrow, as in Spark 3. If this is left open, Spark 4 reads the function's type hints and warns about them.
    judge = sql.udf(_judged, kind, useArrow=False)
    # As bytes, because a line that is not UTF-8 would have other characters in Python.
    judged = judge(line.cast("binary")).alias(_JUDGED)
    lines = frame.select("*", sql.expr(METADATA).alias(_FILE)).where(sql.length(sql.translate(line, _BLANK, "")) > 0)
    return lines.select("*", judged).select(_LINE, _FILE, f"`{_JUDGED}`.*")


def _schema(spark: SparkSession, lines: DataFrame) -> StructType:
    """Return the columns that Spark finds in the objects."""
    from pyspark.sql.types import StructType

    jvm: Any = spark._jvm
    objects = lines.where(f"`{_PROBLEM}` IS NULL").select(_LINE)._jdf
    texts = getattr(objects, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader: Any = spark.read.option("columnNameOfCorruptRecord", _BROKEN)
    schema = StructType.fromJson(json.loads(reader._jreader.json(texts).schema().json()))
    return StructType([field for field in schema if field.name != _BROKEN])


def _text(value: Any) -> Any:
    """Return a text column without the quote marks that Spark puts around the numbers NaN and Infinity among texts.

    NaN becomes null, because it is a missing value, as in a column of numbers.
    """
    from pyspark.sql import functions as sql

    infinite = sql.when(value.isin('"Infinity"', '"-Infinity"'), sql.translate(value, '"', "")).otherwise(value)
    return sql.when(value == '"NaN"', sql.lit(None)).otherwise(infinite)


def _whole(text: Any) -> Any:
    """Return the text of a number that is written without a point or an exponent, and null for any other number."""
    from pyspark.sql import functions as sql

    return sql.when(text.rlike("^-?[0-9]+$"), text)
