"""Table 4: classifiers that learn from records sampled from a view, judged on real records the view never saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import OneHotEncoder

from papers.baselines import PrivBayes
from papers.kato_view.data import CLASSES, load
from papers.kato_view.makers import RELATION, VIEWS
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.noise import SeededRng
from sudare.testing import Tabled

TEST_SHARE = 0.1


def names() -> list[str]:
    """The classifiers that are here; XGBoost is left out where it is not installed."""
    return [name for name, _ in classifiers(1)]


def classifiers(seed: int) -> Iterator[tuple[str, Any]]:
    """The four of the paper, with the settings of their packages."""
    yield "logistic regression", LogisticRegression(max_iter=200)
    yield "AdaBoost", AdaBoostClassifier(random_state=seed)
    yield "gradient boosting", GradientBoostingClassifier(random_state=seed)
    try:
        from xgboost import XGBClassifier
    except ImportError:
        return
    yield "XGBoost", XGBClassifier(random_state=seed, n_jobs=1)


def scores(name: str, method: str | None, *, seed: int = 1) -> list[tuple[float, float]]:
    """AUROC and AUPRC of every classifier; method None learns from the real records."""
    train, test, place = _split(name, seed)
    learned = train if method is None else sampled(name, train, method, seed)
    schema = load(name).schema
    inputs = [one for one in range(len(schema.sizes)) if one != place]
    encoder = OneHotEncoder(categories=[np.arange(schema.sizes[one]) for one in inputs])
    features, wanted = encoder.fit_transform(learned[:, inputs]), learned[:, place]
    asked, truth = encoder.transform(test[:, inputs]), test[:, place]
    found = []
    for _, classifier in classifiers(seed):
        told = classifier.fit(features, wanted).predict_proba(asked)[:, 1]
        found.append((float(roc_auc_score(truth, told)), float(average_precision_score(truth, told))))
    return found


def auroc(name: str, method: str | None, *, seed: int = 1) -> tuple[float, float]:
    """AUROC and AUPRC, means over the classifiers."""
    found = np.mean(scores(name, method, seed=seed), axis=0)
    return float(found[0]), float(found[1])


def sampled(name: str, train: np.ndarray, method: str, seed: int) -> np.ndarray:
    """As many records as there were, from a view of them or from PrivBayes."""
    counts = Counts.from_columns(load(name).schema, train)
    if method not in VIEWS:
        return PrivBayes(epsilon=1).records(counts, neighbours=RELATION, rng=SeededRng(seed), size=len(train))
    chosen = View(epsilon=1, algorithm=method, neighbours=RELATION)  # type: ignore[arg-type]
    view = open_view(chosen.publish(Tabled(counts), rng=SeededRng(seed)))
    return np.concatenate(list(view.records(len(train), rng=SeededRng(seed))))


def _split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    rows = load(name).expand()
    order = np.random.default_rng(seed).permutation(len(rows))
    many = int(TEST_SHARE * len(rows))
    return rows[order[many:]], rows[order[:many]], load(name).schema.position(CLASSES[name])
