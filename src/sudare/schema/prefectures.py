"""The 47 prefectures of Japan in the order of JIS X 0401 and the eight regions they are usually grouped in."""

from __future__ import annotations

REGIONS = {
    "北海道": "北海道",
    "東北": "青森県 岩手県 宮城県 秋田県 山形県 福島県",
    "関東": "茨城県 栃木県 群馬県 埼玉県 千葉県 東京都 神奈川県",
    "中部": "新潟県 富山県 石川県 福井県 山梨県 長野県 岐阜県 静岡県 愛知県",
    "近畿": "三重県 滋賀県 京都府 大阪府 兵庫県 奈良県 和歌山県",
    "中国": "鳥取県 島根県 岡山県 広島県 山口県",
    "四国": "徳島県 香川県 愛媛県 高知県",
    "九州・沖縄": "福岡県 佐賀県 長崎県 熊本県 大分県 宮崎県 鹿児島県 沖縄県",
}

PREFECTURES = tuple(name for names in REGIONS.values() for name in names.split())
"""Names in JIS order: the code of a prefecture is its position, from 1, in two digits."""


def region_of(value: str) -> str | None:
    """Find the region of a prefecture written as "東京都", "東京", "13"; None if it is none.

    >>> region_of("東京"), region_of("01"), region_of("京都府"), region_of("48")
    ('関東', '北海道', '近畿', None)
    """
    return _REGION_OF.get(value)


def _spellings(position: int, name: str) -> set[str]:
    short = name if name == "北海道" else name[:-1]
    return {name, short, f"{position:02d}", str(position)}


_REGION = {name: region for region, names in REGIONS.items() for name in names.split()}
_REGION_OF = {
    spelling: _REGION[name]
    for position, name in enumerate(PREFECTURES, start=1)
    for spelling in _spellings(position, name)
}
