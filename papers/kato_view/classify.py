"""Table 4: classifiers that learn from records sampled from a view, judged on real records the view never saw."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import OneHotEncoder

from papers.kato_view.data import CLASSES, load
from sudare.counts import Counts
from sudare.mechanisms import SeededRng
from sudare.methods.view import View, open_view
from sudare.testing import Tabled

TEST_SHARE = 0.1


def auroc(name: str, method: str | None, *, seed: int = 1) -> tuple[float, float]:
    """AUROC and AUPRC, means over the classifiers; method None learns from the real records."""
    train, test, place = _split(name, seed)
    learned = train if method is None else _sampled(name, train, method, seed)
    schema = load(name).schema
    inputs = [one for one in range(len(schema.sizes)) if one != place]
    encoder = OneHotEncoder(categories=[np.arange(schema.sizes[one]) for one in inputs])
    features, wanted = encoder.fit_transform(learned[:, inputs]), learned[:, place]
    asked, truth = encoder.transform(test[:, inputs]), test[:, place]
    scores = []
    for classifier in (
        LogisticRegression(max_iter=300),
        AdaBoostClassifier(random_state=seed),
        GradientBoostingClassifier(n_estimators=50, random_state=seed),
    ):
        told = classifier.fit(features, wanted).predict_proba(asked)[:, 1]
        scores.append((roc_auc_score(truth, told), average_precision_score(truth, told)))
    found = np.mean(scores, axis=0)
    return float(found[0]), float(found[1])


def _split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    rows = load(name).expand()
    order = np.random.default_rng(seed).permutation(len(rows))
    many = int(TEST_SHARE * len(rows))
    return rows[order[many:]], rows[order[:many]], load(name).schema.position(CLASSES[name])


def _sampled(name: str, train: np.ndarray, method: str, seed: int) -> np.ndarray:
    counts = Counts.from_columns(load(name).schema, train)
    chosen = View(epsilon=1, method=method, neighbours="add-remove")  # type: ignore[arg-type]
    view = open_view(chosen.publish(Tabled(counts), rng=SeededRng(seed)))
    return np.concatenate(list(view.records(len(train), rng=SeededRng(seed))))
