"""The annotation `linkwise.dev/require`: what a pod demands of its devices.

    requirement = comparison { "," comparison }
    comparison  = fact ( ">=" | "<=" | ">" | "<" | "=" | "!=" ) value
                | fact [ "not" ] "in" "(" value { "," value } ")"
    value       = word | '"' any characters but '"' '"'

All comparisons must hold. docs/reference/requirements.md describes the facts and their values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.dialects.requirements import LONGEST, checked, error_at
from linkwise.model.requirement import FACTS, OPERATORS, Clause

if TYPE_CHECKING:
    from linkwise.model.requirement import Comparison, FactName, Operator

__all__ = ["REQUIRE", "read_require"]

REQUIRE: Final = "linkwise.dev/require"
VENDORS: Final = {"huawei": "ascend"}
"""other names of vendors"""

_TOKEN: Final = re.compile(
    r'\s*(?:(?P<sign>>=|<=|!=|==|[<>=(),])|"(?P<quoted>[^"]*)"|(?P<word>[\w.*+/-]+)|(?P<end>$)|(?P<wrong>.))', re.DOTALL
)


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def read_require(text: str) -> tuple[Clause, ...]:
    """The clauses of the annotation, one per comparison; none if it is blank.

    Raises:
        InputError: with the column of the error.
    """
    if not text.strip():
        return ()
    if len(text) > LONGEST:
        raise error_at(LONGEST + 1, f"the requirement is longer than {LONGEST} characters")
    return tuple(Clause(REQUIRE, ((comparison,),)) for comparison in _Reader(text).comparisons())


class _Reader:
    """The tokens of one requirement, from the first on."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0

    def comparisons(self) -> list[Comparison]:
        comparisons = [self._comparison()]
        while self._take("sign", ","):
            comparisons.append(self._comparison())
        if self._next.kind != "end":
            raise self._expected("a comma or the end")
        return comparisons

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, kind: str, *texts: str) -> _Token | None:
        token = self._next
        if token.kind != kind or (texts and token.text.casefold() not in texts):
            return None
        self._place += 1
        return token

    def _expected(self, what: str) -> Exception:
        token = self._next
        there = "the end" if token.kind == "end" else repr(token.text[:40])
        return error_at(token.column, f"expected {what}, found {there}")

    def _comparison(self) -> Comparison:
        fact = self._fact()
        if negated := self._take("word", "not"):
            if not self._take("word", "in"):
                raise self._expected("in")
            return self._one_of(fact, "!=", negated.column)
        if within := self._take("word", "in"):
            return self._one_of(fact, "=", within.column)
        sign = self._take("sign", *OPERATORS, "==")
        if sign is None:
            raise self._expected(f"an operator after {fact}: {', '.join(OPERATORS)}, in or not in")
        operator: Operator = next(each for each in OPERATORS if each == sign.text.replace("==", "="))
        return checked(fact, operator, (self._value(fact),), sign.column)

    def _fact(self) -> FactName:
        token = self._take("word")
        if token is None:
            raise self._expected("a fact to compare")
        fact = next((each for each in FACTS if each == token.text.casefold()), None)
        if fact is None:
            raise error_at(token.column, f"unknown fact {token.text[:40]!r}; use one of {', '.join(FACTS)}")
        return fact

    def _one_of(self, fact: FactName, operator: Operator, column: int) -> Comparison:
        if not self._take("sign", "("):
            raise self._expected("(")
        values = [self._value(fact)]
        while self._take("sign", ","):
            values.append(self._value(fact))
        if not self._take("sign", ")"):
            raise self._expected("a comma or )")
        return checked(fact, operator, tuple(values), column)

    def _value(self, fact: FactName) -> tuple[str, int]:
        token = self._take("word") or self._take("quoted")
        if token is None or not token.text.strip():
            self._place -= token is not None
            raise self._expected("a value")
        value = token.text.strip()
        return VENDORS.get(value.casefold(), value) if fact == "vendor" else value, token.column


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:  # the pattern matches every character and the end
            raise error_at(place + 1, "unreadable")
        kind, start = match.lastgroup, match.start(match.lastgroup)
        if kind == "quoted":
            start -= 1
        if kind == "wrong":
            hint = "the quotation mark is not closed" if match[kind] == '"' else f"unexpected character {match[kind]!r}"
            raise error_at(start + 1, hint)
        if not match[kind].isprintable():
            raise error_at(start + 1, "a control character")
        tokens.append(_Token(kind, match[kind], start + 1))
        place = match.end()
    return tokens
