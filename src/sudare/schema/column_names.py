"""What the name of a column tells of what stands in it, and which texts are names of people."""

from __future__ import annotations

import re
from collections.abc import Collection

LEAST_SHARE_OF_PEOPLE = 0.1
"""Of the texts of a column that hold a common name, before all are taken for names of people.

Chosen on what is common in England, the United States and Japan: of generated lists of 20 to 200 people from there all
are found, of Germans half, of people from where other names are common few. Of the towns of 200 countries those of
Honduras come nearest, with 0.08 (countries of 30 towns or more).
"""
LEAST_PEOPLE = 3  # texts that hold a common name: one wine may be called after somebody
MOST_WORDS_OF_A_NAME = 8  # more are a sentence

_OF_SOMEBODY = (  # names of a person's or household's number, written in one word
    r"^(p|pers|person|h|hh|household|case|resp|subj|subject|stud|student|user|member|patient|cust|client|emp|acct)id$"
    r"|(^|[_ .-])account([_ .-]?(no|nr|num|number))?$"
)
ID = re.compile(
    r"(^|[_ .-])(id|no|nr|num|number|key|uuid|guid|index|idx|rownames|code)$|^(id|no|rownames)([_ .-]|$)|番号|^x$"
    r"|^unnamed|^column 1$|Id$|ID$|^p?id_?(no|num|number)$|" + _OF_SOMEBODY
)
NAMES_SOMEBODY = re.compile(r"(^|[_ .-])(id|uuid|guid|ssn)$|Id$|ID$|番号$|" + _OF_SOMEBODY)
NAMES_DIRECTLY = re.compile(
    r"氏名|姓名|(ふり|フリ|カナ|かな)(がな|ガナ|氏名)|電話|メール|口座番号"
    r"|(^|[_ .-])(e-?mail|phone|telephone|surname|(first|last|full|given|family|maiden)[_ .-]?name)([_ .-]|$)",
    re.IGNORECASE,
)
PERSON = re.compile(
    r"patient|customer|client|user|member|student|subject|person|respondent|household|name|患者|顧客|会員|住民|氏名|利用者",
    re.IGNORECASE,
)
YEAR = re.compile(r"(^|[_ .-])(year|yr|fiscal)([_ .-]|$)|year$|年$|年度", re.IGNORECASE)
CODE = re.compile(
    r"zip|postal|post_?code|郵便|コード|市区町村|自治体|icd|fips|municip|(^|[_ .-])(town|city|code)([_ .-]|$)",
    re.IGNORECASE,
)
POSTAL = re.compile(r"zip|postal|post_?code|郵便", re.IGNORECASE)
ADDRESS = re.compile(r"(^|[_ .-])(address|street)([_ .-]|$)|住所|所在地|番地", re.IGNORECASE)
DAY = re.compile(r"(^|[_ .-])(date|day)([_ .-]|$)|日$|日付", re.IGNORECASE)
PLACE = re.compile(r"(^|[_ .-])(lat|lon|lng|latitude|longitude)([_ .-]|$)|緯度|経度", re.IGNORECASE)
NAME = re.compile(r"(^|[_ .-])names?([_ .-]|$)|[a-z]Name$|名前|氏名|姓名|名$|名称|担当者?$|作者|著者", re.IGNORECASE)
PLAIN_NAME = re.compile(r"names?|full name|(お|ご)?名前|御?芳名|名", re.IGNORECASE)
MOMENT = re.compile(
    r"(^|[_ .-])(time|ts|epoch|unix|unixtime|when|since|at)([_ .-]|$)|timestamp|datetime|created|updated|modified|stamp"
    r"|(^|[_ .-])(date|day)([_ .-]|$)|(Time|Date|At)$|時刻|日時|日付|日$|タイムスタンプ"
)


def is_code_name(name: str) -> bool:
    """Tell whether a column is named as codes or numbers of things: what stands in it is no amount."""
    return bool(CODE.search(name) or ID.search(name))


_GIVEN = (
    "james john robert michael william david richard joseph thomas charles christopher daniel matthew anthony mark "
    "steven paul andrew joshua kenneth kevin brian george edward timothy jason jeffrey ryan jacob gary eric stephen "
    "jonathan larry justin scott brandon benjamin samuel gregory alexander patrick jack peter henry ben dan sam tom "
    "max mary patricia jennifer linda elizabeth barbara susan jessica sarah karen lisa nancy margaret sandra ashley "
    "kimberly emily donna michelle carol amanda melissa deborah stephanie rebecca laura helen amy anna emma olivia "
    "sophia julia alice eva mia nora rosa hans klaus jürgen wolfgang stefan andreas martin ursula monika petra "
    "sabine claudia jean pierre marie jose juan luis carlos maria carmen ana antonio giuseppe wei li ming mohammed "
    "ahmed ali fatima hiroshi takashi kenji yuki haruka taro hanako mr mrs miss"
)
_FAMILIES = (
    *(
        "佐藤",
        "鈴木",
        "高橋",
        "田中",
        "伊藤",
        "渡辺",
        "渡邊",
        "渡邉",
        "中村",
        "小林",
        "加藤",
        "吉田",
        "佐々木",
        "斎藤",
        "斉藤",
    ),
    *(
        "齋藤",
        "木村",
        "井上",
        "清水",
        "山崎",
        "近藤",
        "遠藤",
        "後藤",
        "藤田",
        "岡田",
        "村上",
        "橋本",
        "阿部",
        "石井",
        "前田",
    ),
)
_PEOPLE = frozenset(_GIVEN.split())
_THING = re.compile(r"会社|法人|組合|[店市町村区駅校院]$")  # named after somebody
_WORD = re.compile(r"[^\W\d_]+")


def are_people(texts: Collection[str]) -> bool:
    """Tell whether texts are names of people: enough of them hold a common given name, a title or a family name.

    >>> are_people(["Smith, Mr. John", "Anna Lee", "Mia Wong", "Okoro, Chidi"]), are_people(["John West tuna", "tea"])
    (True, False)
    >>> are_people(["佐藤太郎", "鈴木 花子", "田中健", "福島蓮"]), are_people(["佐藤商店", "緑茶", "紅茶", "米"])
    (True, False)
    """
    people = sum(_holds_common_name(text) for text in texts)
    return people >= LEAST_PEOPLE and people >= LEAST_SHARE_OF_PEOPLE * len(texts)


def _holds_common_name(text: str) -> bool:
    words = _WORD.findall(text.casefold())
    if _THING.search(text):
        return False
    return len(words) <= MOST_WORDS_OF_A_NAME and (text.startswith(_FAMILIES) or not _PEOPLE.isdisjoint(words))
