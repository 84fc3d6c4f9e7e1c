"""Run MST or AIM of the package dpmm on codes, and classifiers on codes; stands alone, for a Python of its own.

    python peer_dpmm.py fit IN.npz OUT.npz mst|aim EPSILON DELTA ITERATIONS MEGABYTES
    python peer_dpmm.py auroc IN.npz

dpmm pins NumPy 1.26, pandas 2.1 and Python below 3.12, so it has an environment to itself: see `view_peers`.
"""

from __future__ import annotations

import json
import resource
import sys

import numpy as np


def fit(given: str, out: str, name: str, epsilon: str, delta: str, iterations: str, megabytes: str) -> None:
    """Fit a mechanism to codes and draw as many records; CPU seconds and memory go to standard output."""
    import pandas as pd
    from dpmm.models.aim import AIM
    from dpmm.models.mst import MST

    stored = np.load(given)
    sizes = stored["sizes"].tolist()
    columns = [f"c{place}" for place in range(len(sizes))]
    frame = pd.DataFrame(stored["codes"].astype(int), columns=columns)
    settings = {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "n_iters": int(iterations),
        "domain": dict(zip(columns, sizes, strict=True)),
        "prng": np.random.RandomState(int(stored["seed"])),
        "n_jobs": 1,
    }
    made = MST(**settings) if name == "mst" else AIM(**settings, max_model_size=float(megabytes), degree=2)
    made.fit(frame)
    drawn = made.generate(n_records=len(frame))
    np.savez_compressed(out, codes=drawn[columns].to_numpy().astype(np.int64))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in used),
        "megabytes": max(one.ru_maxrss for one in used) / 1024,
    }))  # fmt: skip


def auroc(given: str) -> None:
    """AUROC of four classifiers that learn from drawn records and are judged on real ones."""
    from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder

    stored = np.load(given)
    sizes, place = stored["sizes"].tolist(), int(stored["place"])
    inputs = [one for one in range(len(sizes)) if one != place]
    encoder = OneHotEncoder(categories=[np.arange(sizes[one]) for one in inputs])
    test = encoder.fit_transform(stored["test"][:, inputs])
    found = {}
    is_old = "algorithm" in AdaBoostClassifier().get_params()  # newer ones know no other than SAMME
    discrete = {"algorithm": "SAMME"} if is_old else {}
    for name in [name for name in stored.files if name.startswith("drawn_")]:
        drawn = stored[name]
        features, wanted = encoder.transform(drawn[:, inputs]), drawn[:, place]
        makers = [
            LogisticRegression(max_iter=200),
            AdaBoostClassifier(random_state=1, **discrete),
            GradientBoostingClassifier(random_state=1, n_estimators=50),
            RandomForestClassifier(random_state=1, n_estimators=50, min_samples_leaf=5, n_jobs=1),
        ]
        found[name[6:]] = [
            float(roc_auc_score(stored["test"][:, place], one.fit(features, wanted).predict_proba(test)[:, 1]))
            for one in makers
        ]
    print(json.dumps(found))


if __name__ == "__main__":
    {"fit": fit, "auroc": auroc}[sys.argv[1]](*sys.argv[2:])
