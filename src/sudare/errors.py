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
    └── Infeasible            no output can keep the promise

A message is a template and its values, so that the command line can say it in another language:
``ParameterError("k ({k}) must be at least 2", k=1)``. Values are parameters and names, never values of the table.
"""

from __future__ import annotations


class SudareError(Exception):
    """The root of the tree: one clear line that names the thing, its range and what to do.

    >>> str(ParameterError("k ({k}) must be at least 2", k=1))
    'k (1) must be at least 2'
    """

    def __init__(self, text: str, /, **values: object) -> None:
        self.text = text
        self.values = values
        super().__init__(text.format(**values) if values else text)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between worker processes."""
        return _rebuild, (type(self), self.text, self.values)


def _rebuild(kind: type[SudareError], text: str, values: dict[str, object]) -> SudareError:
    return kind(text, **values)


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


class Infeasible(SudareError):  # noqa: N818
    """No output can keep the promise."""
