"""What a declared form writes by itself: the JSON schema for editors, and an annotated example file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sudare.forms.form import FileForm, Key, Keys, TableForm
from sudare.forms.kinds import FilePath, quote
from sudare.text import Text

Described = dict[str, Any]


def write_json_schema(form: FileForm, *, lang: str | None = None) -> Described:
    """Describe a file for editors, which then offer its keys, explain them and mark mistakes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": form.name,
        **_help(form.help, lang),
        "type": "object",
        "properties": {
            name: {**_describe_tables(table, lang), **({"deprecated": True} if name != table.name else {})}
            for table in form.tables
            for name in (table.name, *table.old_names)
        },
        "required": [table.name for table in form.tables if table.required and not table.old_names],
        "additionalProperties": False,
    }


def _describe_tables(table: TableForm, lang: str | None) -> Described:
    described = _describe_table(table, lang)
    if not table.many:
        return described
    return {"type": "array", "items": described, **({"minItems": 1} if table.required else {})}


def _describe_table(table: TableForm, lang: str | None) -> Described:
    if table.variants is None:
        return {**_help(table.help, lang), **_describe_keys(table, table.keys, lang)}
    shapes = []
    for values, keys in _group_variants(table):
        described = _describe_keys(table, keys, lang)
        if table.variants.by in keys:
            chosen = {"const": values[0]} if len(values) == 1 else {"enum": values}
            described["properties"][table.variants.by] = {**_help(keys[table.variants.by].help, lang), **chosen}
        shapes.append(described)
    return {**_help(table.help, lang), "oneOf": shapes}


def _group_variants(table: TableForm) -> Iterator[tuple[list[str], Keys]]:
    """Put together the variants with the same keys."""
    variants = table.variants.keys if table.variants else {}
    values = list(variants)
    for number, value in enumerate(values):
        if not any(variants[before] is variants[value] for before in values[:number]):
            yield [other for other in values if variants[other] is variants[value]], variants[value]


def _describe_keys(table: TableForm, keys: Keys, lang: str | None) -> Described:
    described: Described = {
        "type": "object",
        "properties": {
            spelling: {**_describe_key(key, lang), **({"deprecated": True} if spelling != name else {})}
            for name, key in keys.items()
            for spelling in (name, *key.old_names)
        },
        "required": [name for name, key in keys.items() if key.required and not key.old_names],
        "additionalProperties": _describe_key(table.any_key, lang) if table.any_key else False,
    }
    rules = [rule for group in table.exactly_one if (rule := _describe_choice(table, group, keys))]
    rules += [
        {"not": {"required": [first, second]}}
        for group in table.at_most_one
        for number, first in enumerate(group)
        for second in group[number + 1 :]
        if first in keys and second in keys
    ]
    return described | ({"allOf": rules} if rules else {})


def _describe_choice(table: TableForm, group: tuple[str, ...], keys: Keys) -> Described:
    known = [name for name in group if name in keys]
    choice: Described = {"oneOf": [{"required": [name]} for name in known]} if known else {}
    key, value = table.unless
    if not known or key not in keys:
        return choice
    return {"anyOf": [{"properties": {key: {"const": value}}, "required": [key]}, choice]}


def _describe_key(key: Key, lang: str | None) -> Described:
    kinds = key.kind if isinstance(key.kind, tuple) else (key.kind,)
    shapes = [_describe_table(kind, lang) if isinstance(kind, TableForm) else kind.json_schema() for kind in kinds]
    described = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    default = {} if key.default is None else {"default": _write_default(key.default)}
    return {**_help(key.help, lang), **described, **default}


def _write_default(value: Any) -> Any:
    """Write a default as JSON: a fraction as its text, several values as a list."""
    if isinstance(value, tuple):
        return [_write_default(entry) for entry in value]
    return value if isinstance(value, bool | int | float | str) else str(value)


def _help(words: Text, lang: str | None) -> Described:
    return {"description": words.render(lang)} if words else {}


# --- an example file --------------------------------------------------------------------------------------------------


def write_example(form: FileForm, *, lang: str | None = None) -> str:
    """Write a file that can be read as it stands; what may be left out is a comment, and each key is explained once."""
    lines = [f"# {form.help.render(lang)}"] if form.help else []
    explained: set[Text] = set()
    for table in form.tables:
        for number, keys in enumerate(_list_variants(table)):
            written = _write_table(table, keys, lang, explained)
            is_live = (number == 0 or table.many) and not _wants_file(table, keys)
            lines += ["", *(written if is_live else [f"# {line}" for line in written])]
    return "\n".join(lines).lstrip("\n") + "\n"


def _wants_file(table: TableForm, keys: Keys) -> bool:
    """Tell whether a table that may be left out names a file, which an example does not have."""
    return not table.required and any(key.required and isinstance(key.kind, FilePath) for key in keys.values())


def _list_variants(table: TableForm) -> list[Keys]:
    """List the keys of every variant, with the value that chooses it."""
    if table.variants is None:
        return [table.keys]
    by = table.variants.by
    return [
        {name: replace(key, example=quote(values[0])) if name == by else key for name, key in keys.items()}
        for values, keys in _group_variants(table)
    ]


def _write_table(table: TableForm, keys: Keys, lang: str | None, explained: set[Text]) -> list[str]:
    lines = []
    if table.help and table.help not in explained:
        lines.append(f"# {table.help.render(lang)}")
        explained.add(table.help)
    lines.append(table.header)
    for name, key in keys.items():
        lines.append(_annotate(key, name, lang, explained, is_needed=_is_needed(table, keys, name)))
    if table.any_key is not None:
        lines.append(_annotate(table.any_key, "age", lang, explained, is_needed=True))
    return lines


def _is_needed(table: TableForm, keys: Keys, name: str) -> bool:
    firsts = [next((known for known in group if known in keys), None) for group in table.exactly_one]
    return keys[name].required or keys[name].in_example or name in firsts


def _annotate(key: Key, name: str, lang: str | None, explained: set[Text], *, is_needed: bool) -> str:
    line = key.write(name) if is_needed else f"# {key.write(name)}"
    if not key.help or key.help in explained:
        return line
    explained.add(key.help)
    return f"{line:<48}  # {key.help.render(lang)}"
