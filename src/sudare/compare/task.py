"""What a table is good for: how well a classifier predicts one column from others, before and after a recoding.

Computed from true rows: for the steward alone. scikit-learn is an extra, `sudare[utility]`, imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sudare.errors import ParameterError, SudareError
from sudare.schema.arrays import Booleans, Codes
from sudare.text import Text, text

FOLDS = 5  # a fifth of the rows is predicted by what the other four fifths teach, five times
MAX_TASK_ROWS = 50_000  # of a larger table every n-th row is taken
MAX_STEPS = 300  # of the optimiser


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskAccuracy:
    """How many of the rows a classifier predicts rightly. Not for publication.

    `commonest` is the share that is right if the commonest value is always said; `error` the standard error.
    """

    accuracy: float
    commonest: float
    rows: int

    @property
    def error(self) -> float:
        """Give the standard error of the accuracy."""
        return float(np.sqrt(self.accuracy * (1 - self.accuracy) / max(1, self.rows)))

    def describe(self) -> Text:
        """Say how well the table as it is predicts, and what differences mean."""
        return text(
            "From the table as it is, a classifier predicts {accuracy} of the rows rightly; always saying the commonest"
            " value, {commonest}. Differences below {error} may be chance.",
            accuracy=f"{self.accuracy:.1%}",
            commonest=f"{self.commonest:.1%}",
            error=f"{2.8 * self.error:.1%}",  # two standard errors of a difference
        )


def measure_accuracy(columns: Sequence[Codes], target: Codes, *, is_kept: Booleans | None = None) -> TaskAccuracy:
    """Predict `target` from codes of columns by logistic regression, cross-validated over all rows.

    Rows that are not kept teach nothing, and are predicted as if nothing were known of them.
    Error: ParameterError if the target is all alike in the rows.

    >>> sex = np.array([0, 1] * 50)
    >>> measure_accuracy([sex], sex).accuracy, measure_accuracy([np.zeros(100, dtype=int)], sex).commonest
    (1.0, 0.5)
    """
    kept = np.ones(len(target), dtype=np.bool_) if is_kept is None else is_kept
    stride = -(-len(target) // MAX_TASK_ROWS)
    chosen = np.arange(0, len(target), max(1, stride))
    codes, target, kept = np.column_stack([column[chosen] for column in columns]), target[chosen], kept[chosen]
    counts = np.bincount(target)
    if np.count_nonzero(counts) < 2 or len(target) < 2 * FOLDS:
        raise ParameterError("the task needs a column of at least two values, and {rows} rows or more", rows=2 * FOLDS)
    commonest = float(counts.max() / len(target))
    if np.count_nonzero(np.bincount(target[kept])) < 2:
        return TaskAccuracy(accuracy=commonest, commonest=commonest, rows=len(target))
    right = int((_predict_folds(codes, target, kept) == target).sum())
    return TaskAccuracy(accuracy=right / len(target), commonest=commonest, rows=len(target))


def _predict_folds(codes: Codes, target: Codes, kept: Booleans) -> Codes:
    """Predict every row by a model that has not seen it."""
    model_of, encode = _load_models()
    fold_of = _deal_folds(target)
    features = encode(codes, kept)
    predicted = np.empty_like(target)
    for fold in range(FOLDS):
        is_asked = fold_of == fold
        taught = ~is_asked & kept
        if np.unique(target[taught]).size < 2:
            predicted[is_asked] = np.bincount(target[taught], minlength=1).argmax()
            continue
        model = model_of().fit(features[taught], target[taught])
        predicted[is_asked] = model.predict(features[is_asked])
    return predicted


def _deal_folds(target: Codes) -> Codes:
    """Deal the rows of every value out among the folds in turn, so that each fold has its share of them."""
    order = np.argsort(target, kind="stable")
    fold_of = np.empty(len(target), dtype=np.int64)
    fold_of[order] = np.arange(len(target)) % FOLDS
    return fold_of


def _load_models() -> tuple[Any, Any]:
    try:
        from scipy.sparse import csr_matrix, diags
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import OneHotEncoder
    except ImportError:
        raise SudareError("a task needs scikit-learn; install it with pip install 'sudare[utility]'") from None

    def encode(codes: Codes, kept: Booleans) -> Any:
        features = csr_matrix(OneHotEncoder(handle_unknown="ignore").fit_transform(codes))
        return csr_matrix(diags(kept.astype(np.float64)) @ features)  # a row left out shows nothing

    return lambda: LogisticRegression(max_iter=MAX_STEPS), encode
