"""From text to the words that search compares: the same for a question and for what is searched.

Everything is text, nothing is syntax. A run of letters and digits is a word, in lower case and without accents.
Runs that stand together without a space (`src/main.py`, `ask-codex`, `retry_queue`, `retryQueue`, `col:val`) are
found by each of their parts and by all of them as one (`retryqueue`), so that one spelling finds another. `C++`
and `C#` are words of their own, an apostrophe joins (`don't` is `dont`), a possessive `'s` is dropped. Writing
without spaces between words (Chinese, Japanese, Thai, Korean with its endings) is cut into single characters and
pairs of neighbours, so that every substring of two or more is found by its pairs.

English words are brought to their stem by FTS5's own Porter stemmer, irregular forms (`went`, `bought`) by a list
before that. Words of other languages stay as they are.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


LONGEST: Final = 64
"""Characters of a word; longer ones are compared by their beginning."""

_MOST_PARTS: Final = 8
"""Parts of a name that is also found as one."""

# Characters of scripts without spaces between words; Hangul has them, but endings that grow onto words.
_DENSE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Scripts whose vowel signs are marks, which `\w` does not count as letters.
_LETTER: Final = r"[^\W_\u0964\u0965]|[\u0900-\u0963\u0966-\u0e7f]"
_JOINTS: Final = r"[-_./:@\\+#&'\u2019]"

# Compiled when they are first needed: most texts need the first alone.
_ASCII_RUN: Final = r"[A-Za-z0-9]+(?:[-_./:@\\+#&']{1,2}[A-Za-z0-9]+)*(?:(?<=[A-Za-z])(?:\+\+|#))?"
_RUN: Final = rf"(?:{_LETTER})+(?:{_JOINTS}{{1,2}}(?:{_LETTER})+)*(?:(?<=[A-Za-z])(?:\+\+|#))?"
_SEGMENT: Final = r"[/\\:@&]+"
_PART: Final = r"[-_.+#]+"
_CAMEL: Final = r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|[0-9]+|[^\W_]"
_DENSE_RUN: Final = f"[{_DENSE}]+"
_ACCENT: Final = "[\u0300-\u036f]"

_STOP_TEXT: Final = """
a about above after again against all also am an and any are as at be because been before being below between both
but by can cannot could did do does doing done down during each few for from further had has have having he her here
hers herself him himself his how however i if in into is it its itself just let may me might more most must my myself
no nor not now of off on once only or other our ours ourselves out over own please same shall she should so some such
than that the their theirs them themselves then there these they this those through to too under until up upon us very
was we were what when where whether which while who whom whose why will with would you your yours yourself yourselves
im ive id ill dont didnt doesnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt hasnt havent hadnt thats
whats theres youre youve theyre theyve weve hes shes lets s t re ve ll d m
"""
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
"""English words that say nothing of what a question is about. They are searched for where nothing else is asked."""

_IRREGULAR_TEXT: Final = """
go went gone goes;buy bought;bring brought;think thought;teach taught;catch caught;take took taken;make made;
get got gotten;give gave given;see saw seen;do did done does;say said;tell told;find found;feel felt;keep kept;
leave left;meet met;lose lost;win won;write wrote written;speak spoke spoken;break broke broken;choose chose chosen;
drive drove driven;ride rode ridden;eat ate eaten;fall fell fallen;fly flew flown;forget forgot forgotten;
grow grew grown;know knew known;throw threw thrown;draw drew drawn;begin began begun;drink drank drunk;
sing sang sung;swim swam swum;run ran;come came;become became;hold held;build built;send sent;spend spent;
lend lent;sell sold;pay paid;sit sat;stand stood;understand understood;sleep slept;hear heard;lead led;feed fed;
fight fought;wear wore worn;hide hid hidden;shoot shot;sink sank sunk;steal stole stolen;wake woke woken;
child children;man men;woman women;person people;foot feet;tooth teeth;mouse mice;life lives;wife wives;
knife knives;good better best;bad worse worst;show shown;mean meant;deal dealt;dream dreamt;learn learnt;
freeze froze frozen;shake shook shaken;stick stuck;strike struck;tear tore torn;rise rose risen;arise arose arisen;
bend bent;bind bound;bite bit bitten;blow blew blown;dig dug;hang hung;lay laid;seek sought;shine shone;spin spun;
swing swung;index indices;vertex vertices;datum data;criterion criteria;analysis analyses;half halves;leaf leaves
"""
_IRREGULAR: Final = {
    form: base for base, *forms in (group.split() for group in _IRREGULAR_TEXT.split(";")) for form in forms
}


def words(text: str) -> list[str]:
    """The words of a text in order, repeats included, names as their parts and as one; not stemmed yet."""
    found: list[str] = []
    if text.isascii():
        for run in _pattern(_ASCII_RUN).findall(text):
            tail = run[1:]
            if run.isalnum() and tail == tail.lower():
                found.append(run.lower()[:LONGEST])
            else:
                found += _taken_apart(run)
        return found
    for run in _pattern(_RUN).findall(_folded(text)):
        found += _taken_apart(run)
    return found


def question_words(text: str) -> tuple[str, ...]:
    """The distinct words that a question is about, in order: all but the stop words, or all where it has no other.

    Of writing without spaces only pairs are looked for, where there are any.
    """
    found = list(dict.fromkeys(words(text)))
    if any(len(word) > 1 and _is_dense(word) for word in found):
        found = [word for word in found if len(word) > 1 or not _is_dense(word)]
    telling = [word for word in found if word not in STOP_WORDS]
    return tuple(telling or found)


def is_irregular(word: str) -> bool:
    """Is it a form whose stem another word has (`went`)?"""
    return word in _IRREGULAR


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source)


def _is_dense(word: str) -> bool:
    return not word.isascii() and _pattern(_DENSE_RUN).fullmatch(word) is not None


def _folded(text: str) -> str:
    """Without accents and widths: what a person would type for it."""
    import unicodedata

    return unicodedata.normalize("NFKC", _pattern(_ACCENT).sub("", unicodedata.normalize("NFKD", text)))


def _taken_apart(run: str) -> Iterator[str]:
    """The words of a run that is not simply a word."""
    run = run.replace("\u2019", "'")
    if "'" in run:
        head, _, tail = run.rpartition("'")
        run = head.replace("'", "") + ("" if tail in ("s", "S") else tail)
    if run.endswith(("++", "#")):
        name = run.rstrip("+#")
        if last := _pattern(_PART).split(_pattern(_SEGMENT).split(name)[-1])[-1]:
            yield last.lower()[-LONGEST:] + run[len(name) :]
        run = name
    whole: list[str] = []
    segments = [segment for segment in _pattern(_SEGMENT).split(run) if segment]
    for segment in segments:
        parts = [part.lower() for piece in _pattern(_PART).split(segment) for part in _pieces(piece)]
        for part in parts:
            if not part.isascii() and (dense := _pattern(_DENSE_RUN).findall(part)):
                yield from _substrings(dense)
                part = _pattern(_DENSE_RUN).sub("", part)
            if part:
                yield part[:LONGEST]
        if 1 < len(parts) <= _MOST_PARTS and len(segments) > 1:
            yield "".join(parts)[:LONGEST]
        whole += parts
    if 1 < len(whole) <= _MOST_PARTS:
        yield "".join(whole)[:LONGEST]


def _pieces(name: str) -> list[str]:
    """`retryQueue` and `HTTPServer` by their humps; `v2` and the like are too short to be cut."""
    if len(name) < 4 or not any(map(str.isupper, name)):
        return [name] if name else []
    return _pattern(_CAMEL).findall(name)


def _substrings(runs: Iterable[str]) -> Iterator[str]:
    for run in runs:
        yield from run
        for at in range(len(run) - 1):
            yield run[at : at + 2]


class Stemmer:
    """Brings words to their stems, by FTS5's stemmer in a database of its own; remembers what it was asked."""

    _KEEP: Final = 200_000

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._db: sqlite3.Connection | None = None

    def stems(self, wanted: Iterable[str]) -> dict[str, str]:
        """The stem of each word. The answer holds more than was asked for, and is not to be changed."""
        fresh = [word for word in dict.fromkeys(wanted) if word not in self._known]
        if not fresh:
            return self._known
        if len(self._known) > self._KEEP:
            self._known.clear()
            return self.stems(wanted)
        asked: list[tuple[int, str]] = []
        names: list[str] = []
        for word in fresh:
            base = _IRREGULAR.get(word, word)
            self._known[word] = base
            # What Porter's rules are made for; FTS5 leaves the rest as it is, too.
            if len(base) > 2 and base.isascii() and base.isalpha():
                asked.append((len(asked), base))
                names.append(word)
        if not asked:
            return self._known
        db = self._open()
        db.executemany("INSERT INTO stem(rowid, text) VALUES(?,?)", asked)
        for at, stem in db.execute("SELECT doc, term FROM stemmed").fetchall():
            self._known[names[at]] = stem
        db.execute("INSERT INTO stem(stem) VALUES('delete-all')")
        return self._known

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.execute("CREATE VIRTUAL TABLE stem USING fts5(text, content='', tokenize='porter ascii')")
            self._db.execute("CREATE VIRTUAL TABLE stemmed USING fts5vocab(stem, instance)")
        return self._db
