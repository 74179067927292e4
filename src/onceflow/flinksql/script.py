"""A script, statement by statement: what each makes of names and settings, and which jobs come of it.

Must not know: how jobs run, a command line, how answers are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from onceflow.errors import ConfigurationError
from onceflow.flinksql.catalogue import Names, created, define
from onceflow.flinksql.kinds import quoted
from onceflow.flinksql.parsing import parse
from onceflow.flinksql.pipelines import Pipeline, function_at, pipeline
from onceflow.flinksql.problems import meant, nested, wrong
from onceflow.flinksql.queries import translate
from onceflow.flinksql.relations import Query, SqlView
from onceflow.flinksql.settings import ScriptSettings
from onceflow.flinksql.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Reset,
    Select,
    Set,
    Show,
    Statement,
    StatementSet,
)


@dataclass(frozen=True)
class ScriptAnswer:
    """What a statement gives.

    Attributes:
        lines: Text for people.
        pipeline: A job that it makes.
        query: A query whose rows are to be shown.
    """

    lines: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    query: Query | None = None


@dataclass
class Script:
    """Takes statements one after the other.

    Args:
        flags: Settings of the command line, which go before SET.
    """

    flags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        self.names = Names()
        self.settings = ScriptSettings(self.flags)
        self.jobs: dict[str, Pipeline] = {}

    def run(self, text: str) -> Iterator[ScriptAnswer]:
        """All statements of a text; each is done before the next is asked for.

        Raises:
            ConfigurationError: One that cannot be understood, or does not fit.
        """
        for statement in parse(text):
            yield self.take(statement)

    def take(self, statement: Statement) -> ScriptAnswer:
        """One statement."""
        with nested(statement.at):
            match statement:
                case Insert():
                    return self._job((statement,), statement)
                case StatementSet():
                    return self._job(statement.inserts, statement)
                case Select():
                    return ScriptAnswer(query=translate(statement.query, self.names))
                case _:
                    rule = _RULES[type(statement)]
                    return ScriptAnswer(lines=tuple(rule(self, statement)))

    def _job(self, inserts: tuple[Insert, ...], statement: Statement) -> ScriptAnswer:
        made = pipeline(inserts, statement.at, self.names, self.settings)
        other = self.jobs.get(made.job.name)
        if other is not None:
            raise wrong(
                statement.at,
                f"two jobs are named {made.job.name}: the other is at {other.at}",
                cause="a job's name is that of its checkpoint, by which a second run of the script goes on",
                action="write SET 'pipeline.name' = '…' before each, or put them into one statement set",
            )
        self.jobs[made.job.name] = made
        return ScriptAnswer(pipeline=made)

    # -- names ------------------------------------------------------------------------------------

    def _is_free(self, name: str, statement: CreateTable | CreateView) -> bool:
        if name not in self.names.tables and name not in self.names.views:
            return True
        if statement.if_not_exists:
            return False
        raise wrong(
            statement.at, f"there is a table or view {name} already", action="DROP it before, or write IF NOT EXISTS"
        )

    def _create_table(self, statement: CreateTable) -> Iterator[str]:
        if self._is_free(statement.name, statement):
            table = define(statement, self.names.functions)
            self.names.tables[statement.name] = table
            what = f"what it stands for ({table.options.connector})"
            yield f"table {statement.name}: columns and options fit; {what} is looked at when a query needs it"

    def _create_view(self, statement: CreateView) -> Iterator[str]:
        if self._is_free(statement.name, statement):
            query = translate(statement.query, self.names)  # what is wrong with it shows here
            if statement.columns and len(statement.columns) != len(query.columns):
                raise wrong(
                    statement.at, f"{len(statement.columns)} names for {len(query.columns)} columns", action="name each"
                )
            self.names.views[statement.name] = SqlView(statement.query, statement.columns), statement.text
            yield f"view {statement.name}: its query fits the tables as they are written here; nothing was read"

    def _create_function(self, statement: CreateFunction) -> Iterator[str]:
        if statement.name in self.names.own:
            if statement.if_not_exists:
                return
            raise wrong(statement.at, f"there is a function {statement.name} already", action="DROP it before")
        try:
            _, kind = function_at(statement.path)
        except ConfigurationError as error:
            raise wrong(statement.at, error.what, cause=error.cause, action=error.action) from None
        self.names.own[statement.name] = statement.path
        self.names.kinds[statement.name] = kind
        yield f"function {statement.name} gives {kind}"

    def _drop(self, statement: Drop) -> Iterator[str]:
        known: dict[str, dict[str, object]] = {
            "TABLE": self.names.tables,  # type: ignore[dict-item]
            "VIEW": self.names.views,  # type: ignore[dict-item]
            "FUNCTION": self.names.own,  # type: ignore[dict-item]
        }
        of = known[statement.what]
        if statement.name not in of:
            if statement.if_exists:
                return
            what = statement.what.lower()
            raise wrong(
                statement.at, f"there is no {what} {statement.name}", action=meant(statement.name, of, f"SHOW {what}s")
            )
        del of[statement.name]
        yield f"{statement.what.lower()} {statement.name} is forgotten; what it stood for is not touched"

    # -- settings ---------------------------------------------------------------------------------

    def _set(self, statement: Set) -> Iterator[str]:
        if statement.key is None:
            for key, value, source in self.settings.shown():
                yield f"'{key}' = '{value}' ({source})"
            return
        self.settings.set(statement.at, statement.key, statement.value or "")
        yield from self._became(statement.key)

    def _became(self, key: str) -> Iterator[str]:
        """What a setting is now: a flag or a variable may go before SET."""
        from onceflow.options.layers import effective  # noqa: PLC0415 - layers are another room's

        found = next((e for e in effective(*_layers(self.settings)).values() if e.setting.flink == key), None)
        if found is None:
            yield from (f"'{name}' = '{value}'" for name, value, _ in self.settings.shown() if name == key)
        else:
            becomes = f", in Spark {found.setting.becomes}" if found.setting.becomes else ""
            yield f"'{key}' = '{found.text}' ({found.source}{becomes})"

    def _reset(self, statement: Reset) -> Iterator[str]:
        self.settings.reset(statement.at, statement.key)
        yield "all settings are as they were" if statement.key is None else f"'{statement.key}' is as it was"

    # -- looking ----------------------------------------------------------------------------------

    def _shows(self, statement: Show) -> Iterator[str]:
        names = self.names
        lists = {"TABLES": [*names.tables, *names.views], "VIEWS": [*names.views], "FUNCTIONS": [*names.own]}
        if statement.what in lists:
            yield from sorted(lists[statement.what])
        elif statement.what == "CREATE TABLE" and statement.name in names.tables:
            yield from created(names.tables[statement.name])
        elif statement.what == "CREATE VIEW" and statement.name in names.views:
            yield names.views[statement.name][1]
        else:
            known = names.tables if statement.what.endswith("TABLE") else names.views
            raise wrong(
                statement.at, f"there is no {statement.name}", action=meant(str(statement.name), known, "SHOW TABLES")
            )

    def _describe(self, statement: Describe) -> Iterator[str]:
        names = self.names
        if statement.name in names.tables:
            columns = names.tables[statement.name].seen.columns
        elif statement.name in names.views:
            view = names.views[statement.name][0]
            found = translate(view.query, names).columns
            columns = found
        else:
            known = [*names.tables, *names.views]
            raise wrong(
                statement.at, f"there is no table {statement.name}", action=meant(statement.name, known, "SHOW TABLES")
            )
        for column in columns:
            yield f"{column.name}  {column.kind}" + ("  event time" if column.role == "rowtime" else "")

    def _explain(self, statement: Explain) -> Iterator[str]:
        of = statement.of
        if isinstance(of, Select):
            query = translate(of.query, self.names)
            yield from (*(f"note: {note}" for note in query.notes), query.sql)
            return
        inserts = of.inserts if isinstance(of, StatementSet) else (of,)
        made = pipeline([each for each in inserts if isinstance(each, Insert)], of.at, self.names, self.settings)
        yield f"job {made.job.name}, checkpoint {made.job.checkpointing.location}"
        yield from (f"note: {note}" for note in made.notes)
        for part in made.inserts:
            yield f"INSERT INTO {quoted(part.insert.table)}, in Spark's words:"
            yield part.sql


def _layers(
    settings: ScriptSettings,
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    import os  # noqa: PLC0415 - of this alone

    flags, said = settings.of_jobs()
    return flags, {}, os.environ, said


_RULES: Mapping[type[Statement], Callable[..., Iterator[str]]] = {
    CreateTable: Script._create_table,  # noqa: SLF001 - the class above
    CreateView: Script._create_view,  # noqa: SLF001
    CreateFunction: Script._create_function,  # noqa: SLF001
    Drop: Script._drop,  # noqa: SLF001
    Set: Script._set,  # noqa: SLF001
    Reset: Script._reset,  # noqa: SLF001
    Show: Script._shows,  # noqa: SLF001
    Describe: Script._describe,  # noqa: SLF001
    Explain: Script._explain,  # noqa: SLF001
}
