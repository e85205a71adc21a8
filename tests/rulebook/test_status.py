"""A rule is done when every level it lists is marked and tested."""

from linkwise.rulebook.scan import Mark, Proof
from linkwise.rulebook.status import Record, RuleStatus, join, tally
from linkwise.rulebook.table import Rule

CODE = Mark("003.ring", "src/linkwise/topology/rings.py:3")
PAGE = Mark("003.ring", "docs/rings.md:3")
LIBRARY = Proof("003.ring", "L", "tests/topology/test_rings.py::test_ring")
REAL = Proof("003.ring", "R", "tests/e2e/test_rings.py::test_ring")
DOCS = Proof("003.ring", "-", "tests/docs/test_rings.py::test_page")


def status(levels: str, *known: Mark | Proof) -> RuleStatus:
    marks = tuple(each for each in known if isinstance(each, Mark))
    proofs = tuple(each for each in known if isinstance(each, Proof))
    (joined,) = join([Rule("003.ring", "one ring", tuple(levels.split()))], Record(marks, proofs))
    return joined


def test_a_rule_proven_at_every_level_is_done() -> None:
    made = status("L R", CODE, LIBRARY, REAL)
    assert (made.status, made.proven, made.missing) == ("done", ("L", "R"), ())
    assert made.sentence() == "done"


def test_a_rule_proven_at_some_levels_names_the_others() -> None:
    made = status("L R", CODE, LIBRARY)
    assert (made.status, made.proven, made.missing) == ("not yet", ("L",), ("R",))
    assert made.sentence() == "not yet: real component"


def test_a_rule_that_is_not_done_names_what_it_waits_for() -> None:
    rules = [Rule("003.ring", "one ring", ("R",))]
    (made,) = join(rules, Record((CODE,), ()), {"003.ring": ("node agent", "doctor")})
    assert made.waits_for == ("node agent", "doctor")
    assert made.sentence() == "not yet: real component; waits for node agent and doctor"


def test_a_test_without_a_mark_proves_nothing() -> None:
    assert status("L", LIBRARY).missing == ("L",)


def test_a_mark_without_a_test_proves_nothing() -> None:
    assert status("L", CODE).missing == ("L",)


def test_a_proof_at_one_level_does_not_count_at_another() -> None:
    assert status("R", CODE, LIBRARY).missing == ("R",)


def test_documentation_is_proven_by_a_page_and_its_test() -> None:
    assert status("-", PAGE, DOCS).status == "done"
    assert status("-", CODE, DOCS).status == "not yet"


def test_a_page_does_not_stand_for_code() -> None:
    assert status("L", PAGE, LIBRARY).status == "not yet"


def test_places_and_tests_are_listed_once_each() -> None:
    made = status("L", CODE, LIBRARY, LIBRARY)
    assert made.where == (CODE.place,)
    assert made.tests == (LIBRARY.test,)


def test_the_tally_counts_the_rules_that_list_a_level() -> None:
    made = tally([status("L R", CODE, LIBRARY), status("L")])
    assert made == {"L": (1, 2), "E": (0, 0), "R": (0, 1), "-": (0, 0)}
