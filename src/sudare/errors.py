"""Every error Sudare raises on purpose.

    SudareError
    ├── ParameterError        a parameter is outside its range
    ├── SchemaError           the schema contradicts itself or cannot be read
    │   ├── HierarchyError    a hierarchy has a hole, or does not nest
    │   └── NotConfirmed      an inferred schema was offered for a private release
    ├── SourceError           the data cannot be read: file, column, encoding, engine
    │   └── DomainError       rows hold values the schema does not declare
    ├── LedgerError           the ledger is missing, damaged or of another kind
    │   ├── BudgetExceeded    not enough epsilon is left
    │   └── RelationMismatch  the ledger is kept for other neighbours or another unit
    ├── ReleaseError          a release cannot be written, or is not what it says
    ├── KeyFileError          a key or a signature cannot be read, or is not one
    ├── RequestError          a request store is damaged, or a request cannot become what is asked for
    └── Infeasible            no output can keep the promise

An error carries a text, a template and its values, and is read in the language of whoever looks:
``ParameterError("k ({k}) must be at least 2", k=1)``. Values are parameters and names, never values of the table. An
error inside the line of another one is a value of it: ``SchemaError("{where}: {problem}", where=..., problem=error)``.
"""

from __future__ import annotations

from sudare.text import Readable, Text


class SudareError(Exception, Readable):
    """The root of the tree: one clear line that names the thing, its range and what to do.

    >>> error = ParameterError("k ({k}) must be at least 2", k=1)
    >>> str(error), error.text.values["k"]
    ('k (1) must be at least 2', 1)
    """

    def __init__(self, template: str, /, **values: object) -> None:
        self.text = Text(template, values)
        super().__init__(self.text)

    def render(self, language: str | None = None) -> str:
        """Give the line in a language; in the current one if none is named."""
        return self.text.render(language)

    def __str__(self) -> str:
        return self.text.render()

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between worker processes."""
        return _rebuild, (type(self), self.text)


def _rebuild(kind: type[SudareError], text: Text) -> SudareError:
    return kind(text.template, **text.values)


class ParameterError(SudareError):
    """A parameter is outside its range."""


class SchemaError(SudareError):
    """The schema contradicts itself or cannot be read."""


class HierarchyError(SchemaError):
    """A hierarchy has a hole, or its levels do not nest."""


class NotConfirmed(SchemaError):  # noqa: N818  (reads as a fact in `except NotConfirmed`)
    """An inferred schema was offered for a private release."""


class SourceError(SudareError):
    """The data cannot be read: file, column, encoding, engine."""


class DomainError(SourceError):
    """Rows hold values the schema does not declare. Names attributes, never values."""


class LedgerError(SudareError):
    """The ledger is missing, damaged or of another kind."""


class BudgetExceeded(LedgerError):  # noqa: N818
    """Not enough epsilon is left."""


class RelationMismatch(LedgerError):  # noqa: N818
    """The ledger is kept for other neighbours or another unit of privacy."""


class ReleaseError(SudareError):
    """A release cannot be written, or is not what its certificate says."""


class KeyFileError(SudareError):
    """A key or a signature cannot be read, or is not one."""


class RequestError(SudareError):
    """A request store is damaged, or a request cannot become what is asked for."""


class Infeasible(SudareError):  # noqa: N818
    """No output can keep the promise."""
