"""Which columns identify persons, estimates of population uniques, and persons counted as persons in l."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.errors import ParameterError
from sudare.methods.kanon.identify import find_keys, find_name_hints, identify
from sudare.methods.kanon.population import UniquesEstimate, estimate_uniques
from sudare.requests.risk import measure_identity
from sudare.schema import Attribute, Schema, Values


def table_of(columns: dict[str, list[int]]) -> sd.Counts:
    attributes = tuple(
        Attribute(name=name, domain=Values(tuple(str(code) for code in range(max(codes) + 1))), role="quasi")
        for name, codes in columns.items()
    )
    return sd.Counts.from_columns(Schema(name="t", attributes=attributes), np.column_stack(list(columns.values())))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_distinction_separation_and_uniques_are_what_pairs_of_rows_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = {"a": rng.integers(0, 5, 40).tolist(), "b": rng.integers(0, 30, 40).tolist()}
    report = identify(table_of(codes), ["a", "b"])
    for column in report.columns:
        values = codes[column.names[0]]
        apart = sum(x != y for i, x in enumerate(values) for y in values[:i]) / (40 * 39 / 2)

        assert column.distinction == pytest.approx(len(set(values)) / 40)
        assert column.separation == pytest.approx(apart)
        assert column.uniques == pytest.approx(sum(values.count(value) == 1 for value in values) / 40)


def test_keys_are_smallest_sets_and_none_holds_another() -> None:
    rng = np.random.default_rng(9)
    codes = {name: rng.integers(0, 12, 150).tolist() for name in "abcd"}
    keys = [set(key.names) for key in find_keys(table_of(codes))]

    assert keys
    assert all(not one < other for one in keys for other in keys)


@pytest.mark.parametrize(
    ("name", "is_hinted"),
    [
        ("patient_name", True),
        ("zip", True),
        ("氏名", True),
        ("被保険者番号", True),
        ("colour", False),
        ("usage", False),
    ],
)
def test_names_that_laws_list_are_hinted_at(name: str, is_hinted: bool) -> None:
    schema = Schema(name="t", attributes=(Attribute(name=name, domain=Values(("x", "y"))),))

    assert bool(list(find_name_hints(schema))) == is_hinted


def test_estimates_of_population_uniques_are_within_their_known_error() -> None:
    """A population of which all is known; seed and law are not those of the benchmark."""
    rng = np.random.default_rng(77)
    sizes = np.bincount(rng.choice(9000, 30_000, p=rng.dirichlet(np.full(9000, 0.4))))
    true = int((sizes == 1).sum())
    found = {each.model: each.uniques / true for each in estimate_uniques(rng.binomial(sizes, 0.1), 0.1)}

    assert set(found) == {"zayatz", "pitman", "snb"}
    assert 0.5 <= found["pitman"] <= 17
    assert 0.3 <= found["snb"] <= 18


def test_a_whole_population_is_its_own_sample() -> None:
    sizes = np.array([1] * 50 + [2] * 30 + [5] * 10)
    zayatz = next(each for each in estimate_uniques(sizes, 1.0) if each.model == "zayatz")

    assert zayatz.uniques == pytest.approx(50)


def test_a_share_that_would_be_written_as_zero_is_told_as_less_than_the_least() -> None:
    tiny = str(UniquesEstimate(model="pitman", uniques=0.02, share=2e-9).describe())
    small = str(UniquesEstimate(model="pitman", uniques=20, share=2e-5).describe())

    assert tiny.startswith("pitman: less than 0.001% of the population is unique")
    assert small.startswith("pitman: about 0.002% of the population is unique")


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5])
def test_a_fraction_out_of_range_is_refused(fraction: float) -> None:
    with pytest.raises(ParameterError, match="sample fraction"):
        estimate_uniques(np.array([1, 2]), fraction)


def test_a_register_gives_k_map_and_a_fraction_gives_estimates(tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="c", domain=Values(tuple("xyz")), role="quasi"),))
    (tmp_path / "t.csv").write_text("c\nx\ny\ny\n", encoding="utf-8")
    (tmp_path / "people.csv").write_text("c\n" + "x\n" * 4 + "y\n" * 7 + "z\n", encoding="utf-8")
    with_register = measure_identity(tmp_path / "t.csv", schema, register_file=tmp_path / "people.csv")

    assert with_register.risk.journalist == pytest.approx(1 / 4)
    assert measure_identity(tmp_path / "t.csv", schema, fraction=0.5).population
    with pytest.raises(ParameterError, match="not both"):
        measure_identity(tmp_path / "t.csv", schema, register_file=tmp_path / "people.csv", fraction=0.5)


def test_l_counts_persons_where_one_person_may_have_several_rows(tmp_path: Path) -> None:
    """Every person has two rows with two values: by rows any class has l = 2, by persons only two persons give it."""
    (tmp_path / "t.toml").write_text(
        '[sudare]\nschema = 1\nname = "t"\n[unit]\nkind = "person"\ncolumn = "id"\nmax_rows = 2\n'
        '[[attribute]]\nname = "g"\nkind = "category"\nrole = "quasi"\nvalues = ["a", "b"]\n'
        'hierarchy = { masking = "right" }\n'
        '[[attribute]]\nname = "s"\nkind = "category"\nrole = "sensitive"\nvalues = ["1", "2", "3", "4"]\n',
        encoding="utf-8",
    )
    # class a: all persons have the values 1 and 2; class b: 1 and 2, or 3 and 4
    rows = [("a", person, value) for person in range(8) for value in (1, 2)]
    rows += [("b", 8 + person, value) for person in range(8) for value in ((1, 2) if person % 2 else (3, 4))]
    (tmp_path / "t.csv").write_text(
        "id,g,s\n" + "".join(f"p{person},{group},{value}\n" for group, person, value in rows), encoding="utf-8"
    )
    with sd.open(tmp_path / "t.csv", sd.Schema.read(tmp_path / "t.toml")) as source:
        by_rows = sd.KAnonymity(k=2).decide(source).recoded
        by_persons = sd.KAnonymity(k=2, criteria=("l=2,s",)).decide(source).recoded

    assert len(by_rows.class_sizes) == 2
    assert len(by_persons.class_sizes) == 1


@pytest.mark.parametrize(
    ("name", "law"),
    [
        *(
            (name, "HIPAA")
            for name in ("PatientName", "dob", "DateOfBirth", "Zip-Code", "ＺＩＰ", "e-mail", "IPAddress")
        ),
        *(
            (name, "HIPAA")
            for name in ("Home Phone", "acct_no", "LICENCE", "age", "patient.age", "admitDate", "MRN", "ＴＥＬ番号")
        ),
        *((name, "個人情報保護法") for name in ("ﾌﾘｶﾞﾅ", "フリガナ", "お名前", "生年月日", "ご住所", "メールアドレス")),
        *(
            (name, "個人情報保護法")
            for name in ("マイナンバー", "基礎年金番号", "既往病歴", "本籍地", "年令", "現住所1", "ＤＮＡ型")
        ),
        *((name, None) for name in ("wage", "storage", "mileage", "vinegar", "capacity", "interface", "rename_count")),
        *(
            (name, None)
            for name in ("salary", "pressure", "売上", "件数", "学歴", "気温", "vehicle", "manage", "surplus")
        ),
    ],
)
def test_names_that_laws_list_are_recognised_however_they_are_written(name: str, law: str | None) -> None:
    schema = Schema(name="t", attributes=(Attribute(name=name, domain=Values(("x", "y"))),))
    found = [str(hint) for _, hint in find_name_hints(schema)]

    assert len(found) == (law is not None)
    assert law is None or law in found[0]
