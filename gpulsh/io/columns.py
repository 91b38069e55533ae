"""The columns that gpulsh reads, and how a user names them: a column, a field of objects, or several."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpulsh.checks import shown
from gpulsh.errors import InputError, ParameterError, nearest_name
from gpulsh.io.file import File

FieldPath = tuple[str, ...]  # a column, and the path of fields below it
COLUMN_PREFIX = "column:"  # before the name of a column that has dots or commas
SEPARATOR = b"\n"  # joins the texts of several columns


def text_named(given: object) -> str:
    """The argument of `text_fields`, from a name or a list of names; ParameterError for anything else.

    >>> text_named(["title", "meta.body"])
    'title,meta.body'
    """
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"text_column is {shown(given)}; give the name of a column, or a list of names")
    if len(names) > 1 and (odd := [name for name in names if "," in name or name.startswith(COLUMN_PREFIX)]):
        raise ParameterError(f"text_column has {odd[0]!r} among others; give a name without commas, or only that one")
    return ",".join(names)


def text_fields(given: str) -> tuple[FieldPath, ...]:
    """The places of a document's texts, which are joined: NAME, NAME.FIELD, or several with commas between them.

    >>> text_fields("title,meta.body"), text_fields("column:a.b")
    ((('title',), ('meta', 'body')), (('a.b',),))
    """
    if given.startswith(COLUMN_PREFIX):
        return ((given.removeprefix(COLUMN_PREFIX),),)
    places = tuple(tuple(name.split(".")) for name in given.split(","))
    if given and not all(map(all, places)):
        raise ParameterError(
            f"text_column is {given!r}, and a part of it is empty; give NAME, NAME.FIELD or several with commas,"
            " or column:NAME for a name with a dot or comma"
        )
    return places


def field_named(name: str, present: Container[str]) -> FieldPath:
    """The column of that name if it is `present`, otherwise the field with that path.

    >>> field_named("a.b", ["a.b", "a"]), field_named("a.b", ["a"])
    (('a.b',), ('a', 'b'))
    """
    return (name,) if name in present else tuple(name.split("."))


@dataclass(frozen=True)
class Columns:
    """The columns that gpulsh reads; it only copies all others. `text` is an argument of `text_fields`. Another name
    with dots that is no column is the path of a field.
    """

    text: str
    order: str | None = None  # orders documents, for --keep
    id: str | None = None
    copy_key: str | None = None  # equal values: copies, for --key, or the same group, for --within
    copy_key_option: str = "--key"
    unread: bool = False  # texts are not needed: each is given as an empty one
    more: Mapping[str, str] = field(default_factory=dict)  # columns that a later stage reads, and the option of each
    added: frozenset[str] = frozenset()  # names of columns that will be written, which files must not have
    unwritten: tuple[str, ...] = ()  # INPUTs whose files may have them
    texts: tuple[FieldPath, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", text_fields(self.text))

    @property
    def text_column(self) -> str | None:
        """The column of the text; None where fields or several columns make it."""
        return self.texts[0][0] if len(self.texts) == len(self.texts[0]) == 1 else None

    def fields(self) -> tuple[FieldPath, ...]:
        """All places that must exist. The columns of `others` are names for `field_named`."""
        return tuple(dict.fromkeys((*self.texts, *((name,) for name in self.others()))))

    def depth(self) -> int:
        """Levels of nested objects that may hold a value, the record itself included."""
        return max(*map(len, self.texts), *(name.count(".") + 1 for name in self.others()), 1)

    def others(self) -> list[str]:
        """The columns that are read besides the texts."""
        return [name for name in (self.order, self.id, self.copy_key, *self.more) if name is not None]

    def option_clause(self, name: str) -> str:
        """The option that names one of the `others`, at the end of a clause in a message."""
        if name == self.order:
            return ", which --keep names (it also takes first, longest and source:INPUT,INPUT)"
        if name == self.id:
            return ", which --id-column names for every input file; add it, or leave --id-column out"
        option = self.copy_key_option if name == self.copy_key else self.more[name]
        return f", which {option} names"


def missing_column(file: File, place: FieldPath, columns: Columns, present: Sequence[str]) -> InputError:
    """The error of a file that lacks one of the `columns`; `present` are the columns that it has."""
    name = ".".join(place)
    column = repr(name) + ("" if place in columns.texts else columns.option_clause(name))
    names = ", ".join(present[:20]) + (", ..." if len(present) > 20 else "")
    hint = ""
    if place in columns.texts:
        is_name = columns.text in present
        hint = f"; give column:{columns.text} for the one of that name" if is_name else "; name one by --text-column"
        hint += "" if is_name or file.source in ("", file.name) else ", or leave the file out"
    meant = nearest_name(name, present)
    near = "" if meant in (None, name) else f"; did you mean {meant!r}?"
    return InputError(f"{file.name}: has no column {column}; its columns are: {names or 'none'}{hint}{near}")


def refuse_added(file: File, columns: Columns, present: Iterable[str], where: str = "") -> None:
    """InputError if the file, or the record `where`, has one of the columns that will be added."""
    if columns.added.isdisjoint(present) or file.source in columns.unwritten:
        return
    both = sorted(columns.added.intersection(present))
    raise InputError(f"{file.name}: {where}has a column {both[0]!r}, which would be added; rename it")
