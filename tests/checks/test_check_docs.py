"""scripts/check-docs finds a name of a file that is not there, and a link to a section that is not, and nothing else."""

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def docs():
    module = ModuleType("check_docs")
    module.__file__ = str(SCRIPTS / "check-docs")
    exec(SourceFileLoader("check_docs", module.__file__).get_code("check_docs"), module.__dict__)
    return module


@pytest.mark.parametrize("text, found", [
    ("[a](other.md)", []),
    ("[a](other.md#a-heading-with-code-and-a-link)", []),
    ("[a](#here)", []),
    ("[a](https://example.org/none#x)", []),
    ("[a](none.md)", ["the link none.md"]),
    ("[a](other.md#in-a-block)", ["the link other.md#in-a-block: there is no such section"]),
    ("[a](#gone)", ["the link #gone: there is no such section"]),
])
def test_links(docs, tmp_path, text, found):
    (tmp_path / "other.md").write_text("# A heading, with `code` and [a link](x.md)\n\n```\n# in a block\n```\n")
    text = f"## Here\n\n{text}\n"
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(docs.faults_of_links(page, text)) == found


@pytest.mark.parametrize("text, names", [
    ("`model/mixers/gone.c` and `scripts/test lint`", ["model/mixers/gone.c", "scripts/test"]),
    ("`server/http/FILE.c`, `deploy/{a,b}`, `other/place.c`, `a/b`", []),
    ("`tests/http/test_a.py::test_b`", ["tests/http/test_a.py"]),
])
def test_paths(docs, text, names):
    assert list(docs.named(text)) == names


@pytest.mark.parametrize("text, names", [
    ("`linear.c`, `python3 trainer.py --run RUN`, `gone.h`:", ["linear.c", "trainer.py", "gone.h"]),
    ("`NAME.c`, `every_other.py`, `jansson.h`, linear.c", []),
])
def test_names_alone(docs, text, names):
    assert list(docs.named_alone(text)) == names


def test_what_exists(docs):
    assert docs.exists("server/http/front*.c") and docs.exists("model/mixers/") and not docs.exists("server/http/gone*.c")


def test_records_have_numbers_of_their_own(docs, tmp_path):
    for name, first in (("0001-one.md", "# 1. One"), ("0010-ten.md", "# 10. Ten"), ("0010-two.md", "# 10. Two"), ("0011-x.md", "# 10. X")):
        (tmp_path / name).write_text(f"{first}\n")
    assert list(docs.faults_of_records(list(tmp_path.iterdir()))) == [
        "0010-two.md has the number of 0010-ten.md", "0011-x.md does not begin with its number"]


def test_names_in_c(docs):
    assert list(docs.named_in_c('#include "gone.h"\n/* As gone.c does, and cuda_runtime.h. */\n')) == ["gone.c"]
