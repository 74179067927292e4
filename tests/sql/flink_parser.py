"""Flink's own parser, in a Java of its own: what it takes, and what it says against the rest.

The jars are pinned, and fetched by Ivy as all others are; they are for tests alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import pyspark
from bench.peer_jars import fetched
from py4j.java_gateway import GatewayParameters, JavaGateway, Py4JJavaError, launch_gateway

from onceflow.local.jars import Jar

JARS = (
    Jar("org.apache.flink", "flink-sql-parser", "2.2.0", 687543,
        "b81bdf79a4175edae203a42a2871a63bd3ba47626bcbe636f65a24d4d548a399"),
    Jar("org.apache.calcite", "calcite-core", "1.36.0", 7915023,
        "1322396c24f0c80c03fc4ac8ed4f35e61d97d6717b74a6da866502c8e59827b7"),
    Jar("org.apache.calcite", "calcite-linq4j", "1.36.0", 510210,
        "8e5a76cbfb997157a4abe9de52a6d92515a6e611f13c8b46312982d46ea6ff3f"),
    Jar("org.apache.calcite.avatica", "avatica-core", "1.24.0", 1286212,
        "61709d8391db48dc1e9ac6fa667aff00264fa14e5c60e72f3c77ac242f33dc9d"),
    Jar("org.immutables", "value-annotations", "2.8.8", 12575,
        "ed90ac167f12d744b33f57a24cf610f5320e7d2a164324a2c64c6f80d390eec1"),
    Jar("com.google.guava", "guava", "33.4.0-jre", 3080298,
        "b918c98a7e44dbe94ebd9fe3e40cddaadb5a93e6a78eb6008b42df237241e538"),
    Jar("com.google.guava", "failureaccess", "1.0.2", 4740,
        "8a8f81cf9b359e3f6dfa691a1e776985c061ef2f223c9b2c80753e1b458e8064"),
    Jar("org.slf4j", "slf4j-api", "1.7.36", 41125,
        "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
    Jar("org.apache.commons", "commons-lang3", "3.18.0", 702952,
        "4eeeae8d20c078abb64b015ec158add383ac581571cddc45c68f0c9ae0230720"),
    Jar("org.apiguardian", "apiguardian-api", "1.1.2", 6806,
        "b509448ac506d607319f182537f0b35d71007582ec741832a1f111e5b5b70b38"),
    Jar("org.checkerframework", "checker-qual", "3.42.0", 230830,
        "ccaedd33af0b7894d9f2f3b644f4d19e43928e32902e61ac4d10777830f5aac7"),
    Jar("org.apache.commons", "commons-math3", "3.6.1", 2213560,
        "1e56d7b058d28b65abd256b8458e3885b674c1d588fa43cd7d1cbb9c7ef2b308"),
)  # fmt: skip


class FlinkParser:
    """Parses statements as Flink's SQL client does.

    Used as a context manager: it is a process of Java's.
    """

    def __enter__(self) -> Self:
        py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j*.jar"))
        jars = os.pathsep.join(str(fetched(jar)) for jar in JARS)
        port = launch_gateway(classpath=jars, jarpath=str(py4j), die_on_exit=True)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        java = self._gateway.jvm

        def constant(of: str, name: str) -> Any:
            return java.java.lang.Class.forName(of).getField(name).get(None)

        self.factory = constant("org.apache.flink.sql.parser.impl.FlinkSqlParserImpl", "FACTORY")
        self._parsers = java.org.apache.calcite.sql.parser.SqlParser
        self._config = (
            self._parsers.config()
            .withParserFactory(self.factory)
            .withConformance(constant("org.apache.flink.sql.parser.validate.FlinkSqlConformance", "DEFAULT"))
            .withLex(constant("org.apache.calcite.config.Lex", "JAVA"))
            .withIdentifierMaxLength(256)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()

    def objection(self, statement: str) -> str | None:
        """What it says against a statement, in a line; None where it takes it."""
        try:
            self._parsers.create(statement, self._config).parseStmtList()
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage()).partition("\n")[0]
        return None

    def reserved(self) -> frozenset[str]:
        """The words that it takes for its own."""
        metadata = self.factory.getParser(self._gateway.jvm.java.io.StringReader("")).getMetadata()
        return frozenset(word for word in metadata.getTokens() if metadata.isReservedWord(word))
