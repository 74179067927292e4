"""Flink's queries for sqlglot: how text, names and functions are read.

Must not know: what a query means, Spark.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy

_WITH_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "CEIL", "FLOOR")
_TYPES = ("ARRAY", "DATE", "INTERVAL", "NULL", "TIMESTAMP", "UNION", "UNKNOWN")
"""Of sqlglot's types those that are more; those of CASTs are read by ``parsing``, and others may be names."""
_NO_KEYWORDS = ("SESSION", "/*+", "::", "QUALIFY", "XOR", "ILIKE", "RLIKE", "REGEXP", "GLOB")


class Flink(Dialect):
    """Backticks for names, quotes for text, and every function under the name that it is called by."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    SUPPORTS_USER_DEFINED_TYPES = True

    class Tokenizer(tokens.Tokenizer):
        """As ``lexing`` reads a script."""

        IDENTIFIERS: ClassVar = ["`"]
        QUOTES: ClassVar = ["'"]
        STRING_ESCAPES: ClassVar = ["'"]
        IDENTIFIER_ESCAPES: ClassVar = ["`"]
        COMMENTS: ClassVar = ["--", "//", ("/*", "*/")]
        KEYWORDS: ClassVar = {
            key: value
            for key, value in tokens.Tokenizer.KEYWORDS.items()
            if key not in _NO_KEYWORDS and (value not in parser.Parser.TYPE_TOKENS or key in _TYPES)
        }

    class Parser(parser.Parser):
        """Functions stay as they are called: what each means stands in a table of ours."""

        FUNCTIONS: ClassVar = {}
        ARRAY_CONSTRUCTORS: ClassVar = {"ARRAY": exp.Array}
        FUNCTION_PARSERS: ClassVar = {
            key: value for key, value in parser.Parser.FUNCTION_PARSERS.items() if key in _WITH_GRAMMAR
        } | {"CEILING": parser.Parser.FUNCTION_PARSERS["CEIL"]}
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            key: value for key, value in parser.Parser.NO_PAREN_FUNCTION_PARSERS.items() if key == "CASE"
        }
