"""Ways to spoil a good file: its bytes, its lines, its tables (TOML) and its trees (JSON), by a seeded generator."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

DEEP = 3000  # brackets inside one another: beyond what a recursive reader survives
LONG = 200_000  # characters or digits of what is far too long

NASTY_NUMBERS = (
    "0", "-1", "1e400", "1e-400", "-0", "NaN", "inf", "1/0", "0/0", "9" * 400, "1e999999999", "0x10", "1_000", "٣",
    "½", "2**64", "18446744073709551616", "-9223372036854775809", "1.", ".5", "1,5", "1e", "--1", "+-1", "1 2", "0.1e",
    "999999999999999999999/7", "1/" + "3" * 300, "", " ", "1e5000", "true", "null",
)  # fmt: skip
NASTY_TEXTS = (
    "", " ", "\x00", "\x1b[31mred\x1b[0m", "\u202etxet", "\u2028", "../../etc/passwd", "/dev/null", "/", ".", "..",
    "~", "*", "'", '"', "';--", "{}", "{0}", "{file}", "%s%n", "\ud7ff", "🜁" * 40, "a" * 5000, "\ufeff", "\r\n", "\\",
    "NULL", "None", "nan", "０", "ｱ", "A\u0301", "=1+1", "$(id)", "`id`", "con.txt", "-", "--", "postgresql://",
    "x" * 300, "postgresql://nobody@127.0.0.1:1/none?table=t", "http://127.0.0.1/x.csv", "s3://x/y.csv", "sqlite://",
)  # fmt: skip
NASTY_BYTES = (
    b"\x00", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"\x80", b"\r", b"\x1a", b"\x7f",
    b"\xf4\x90\x80\x80", b"\x81", b"\x00" * 50, b"\n" * 1000, b'"', b"'", b"[", b"]", b"{", b"}", b"=", b"#", b",",
    b";",
)  # fmt: skip
TOML_VALUES = (
    '""', "''", "0", "-1", "1.5", "true", "[]", "{}", "[[]]", '["a", 1]', "nan", "inf", "-inf", "1979-05-27",
    "07:32:00", "1979-05-27T07:32:00Z", "9223372036854775808", "1e400", '"\\u0000"', '"\\u001b[31m"', '"../x"',
    '"/dev/zero"', "{ start = 0 }", "{ start = 0, stop = 1e300, width = 1 }", "{ start = 5, stop = 1, width = 1 }",
    "{ edges = [] }", "{ edges = [1, 1] }", "{ edges = [3, 2, 1] }", '{ edges = ["a"] }', '["h1", "h1"]', '[""]',
    "{ start = 0, stop = 100, width = 0 }", "{ start = 0, stop = 1000000000, width = 1 }", "0x7fffffffffffffff",
    "1__0", '"""' + "a\n" * 50 + '"""', "{ a.b.c = 1 }", "[1, 2, 3, [4, [5]]]", '"' + "k" * 3000 + '"', "9" * 5000,
    "2024-02-31", "[" * DEEP + "]" * DEEP, "{a=" * 500 + "1" + "}" * 500, "[" * 60 + "]" * 60, '"missing.csv"', '"."',
    "'row'", "'person'",
)  # fmt: skip
JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 2**63, -(2**70), 10**300, "", "x", "\x00", "\x1b[2J", "NaN", "1/0", [], {},
    [[]], {"": None}, [None], ["a", 1], "a" * 3000, float("nan"), float("inf"), "1" * 400, {"a": {"b": [1]}},
    "../../x", "2026-99-99",
)  # fmt: skip


def nest_json(depth: int = DEEP) -> str:
    """Lists inside lists."""
    return "[" * depth + "]" * depth


# --- bytes ------------------------------------------------------------------------------------------------------------


def spoil_bytes(content: bytes, dice: random.Random) -> bytes:
    """Cut, repeat, exchange or insert bytes."""
    at = dice.randrange(len(content) + 1)
    until = min(len(content), at + dice.choice((1, 1, 3, 16, 200, len(content))))
    how = dice.randrange(7)
    if how == 0:
        return content[:at]
    if how == 1:
        return content[:at] + content[until:]
    if how == 2:
        return content[:until] + content[at:until] * dice.choice((1, 2, 50)) + content[until:]
    if how == 3:
        return content[:at] + dice.choice(NASTY_BYTES) + content[at:]
    if how == 4:
        return (
            content[:at]
            + bytes(dice.randrange(256) for _ in range(until - at if until - at < 50 else 5))
            + content[until:]
        )
    if how == 5 and at < len(content):
        return content[:at] + bytes([content[at] ^ (1 << dice.randrange(8))]) + content[at + 1 :]
    return dice.choice(NASTY_BYTES) * dice.choice((1, 100)) + content


def spoil_lines(content: str, dice: random.Random) -> str:
    """Drop, double, exchange or cut lines."""
    lines = content.split("\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    how = dice.randrange(5)
    if how == 0:
        del lines[one]
    elif how == 1:
        lines.insert(other, lines[one])
    elif how == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif how == 3:
        lines[one] = lines[one][: dice.randrange(len(lines[one]) + 1)]
    else:
        lines[one] = dice.choice(NASTY_TEXTS) + lines[one]
    return "\n".join(lines)


# --- TOML -------------------------------------------------------------------------------------------------------------


def spoil_toml(content: str, dice: random.Random) -> bytes:
    """Give a key another value, another name or a second place; or spoil lines or bytes."""
    how = dice.randrange(10)
    if how == 0:
        return spoil_bytes(content.encode(), dice)
    if how == 1:
        return spoil_lines(content, dice).encode("utf-8", "surrogatepass")
    lines = content.split("\n")
    keys = [number for number, line in enumerate(lines) if " = " in line]
    heads = [number for number, line in enumerate(lines) if line.startswith("[")]
    at = dice.choice(keys)
    key, _, value = lines[at].partition(" = ")
    if how <= 5:
        lines[at] = f"{key} = {dice.choice(TOML_VALUES)}"
    elif how == 6:
        lines[at] = f"{_misspell(key, dice)} = {value}"
    elif how == 7:
        lines.insert(dice.choice(keys), f"{_misspell(key, dice)} = {dice.choice(TOML_VALUES)}")
    elif how == 8:
        head = dice.choice(heads)
        lines[head] = dice.choice(
            ("[", "[[", "[a]", "[[a.b]]", f"{lines[head]}]", "[.]", "['']", "[" + "a." * 5000 + "a]")
        )
    else:
        lines[at] = f'{key} = "{_escape(dice.choice(NASTY_TEXTS))}"'
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _misspell(key: str, dice: random.Random) -> str:
    return dice.choice(
        (
            key[:-1] or "x",
            key + "s",
            key.upper(),
            '""',
            "'a b'",
            key + "." + key,
            "\u00e9",
            "x" * 2000,
            "0",
            "a" + ".a" * 300,
        )
    )


def _escape(text: str) -> str:
    return json.dumps(text)[1:-1]


# --- JSON -------------------------------------------------------------------------------------------------------------


def spoil_json(content: str, dice: random.Random) -> bytes:
    """Put something else at a place of a tree, or take it away; or spoil the text itself."""
    how = dice.randrange(10)
    if how == 0:
        return spoil_bytes(content.encode(), dice)
    tree = json.loads(content)
    places = list(_list_places(tree))
    trail = dice.choice(places)
    if how == 1:
        return _write_with(
            tree, trail, dice.choice((nest_json(), '{"a":' * DEEP + "1" + "}" * DEEP, "9" * LONG, "1e999999"))
        )
    if how == 2:
        return _change(tree, trail, lambda parent, key: parent.pop(key))
    if how == 3:
        return _change(tree, trail, lambda parent, key: _add_unknown(parent, dice))
    if how == 4:
        other = dice.choice(places)
        return _change(tree, trail, lambda parent, key: _put(parent, key, _find(tree, other)))
    return _change(tree, trail, lambda parent, key: _put(parent, key, _unlike(parent[key], dice)))


def _unlike(value: Any, dice: random.Random) -> Any:
    if isinstance(value, int | float) and dice.randrange(2):
        return dice.choice((value + 1, -value, value * 10**9, str(value), value + 0.5))
    if isinstance(value, str) and dice.randrange(2):
        return dice.choice((value + "0", value[:-1], value.upper(), value * 2, value[::-1]))
    return dice.choice(JSON_VALUES)


def _list_places(tree: Any, trail: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if trail:
        yield trail
    if isinstance(tree, dict):
        for key in tree:
            yield from _list_places(tree[key], (*trail, key))
    elif isinstance(tree, list):
        for number in range(min(len(tree), 4)):
            yield from _list_places(tree[number], (*trail, number))


def _find(tree: Any, trail: tuple[Any, ...]) -> Any:
    for key in trail:
        tree = tree[key]
    return tree


def _change(tree: Any, trail: tuple[Any, ...], change: Callable[[Any, Any], object]) -> bytes:
    changed = copy.deepcopy(tree)
    change(_find(changed, trail[:-1]), trail[-1])
    return json.dumps(changed, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")


def _put(parent: Any, key: Any, value: Any) -> None:
    parent[key] = copy.deepcopy(value)


def _add_unknown(parent: Any, dice: random.Random) -> None:
    value = dice.choice(JSON_VALUES)
    if isinstance(parent, dict):
        parent[dice.choice(("unknown", "", "\x00", "__class__"))] = value
    else:
        parent.append(value)


def _write_with(tree: Any, trail: tuple[Any, ...], words: str) -> bytes:
    """Write a tree with words in it that Python would not write."""
    mark = "@@here@@"
    return _change(tree, trail, lambda parent, key: _put(parent, key, mark)).replace(
        f'"{mark}"'.encode(), words.encode()
    )
