"""The page in a real Chromium: nothing fetched, nothing cut, and tables that sort."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from sparksplit.diagnosis.page import render as diagnosis_page
from sparksplit.diagnosis.preprocess.page import render as preparation_page
from tests.comparison.report.pages import rendered
from tests.comparison.sample import DELAYED, LOCAL, NASTY, results
from tests.diagnosis.made_up import answer, diagnosis
from tests.diagnosis.preprocess.made_up import preparation

pytestmark = pytest.mark.chromium
WIDE, PHONE = (1280, 900), (360, 800)


@pytest.fixture(scope="module")
def browser(nothing_left_running: None) -> Iterator[Browser]:
    """Debian's Chromium; Playwright's own is not downloaded."""
    executable = shutil.which("chromium")
    if executable is None:
        _unavailable("chromium is not on the PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(rendered(results()), encoding="utf-8")
    return file


@pytest.fixture(scope="module", params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    """The page, opened from its file once for all tests that only look at it."""
    with opened(browser, report, *request.param) as page:
        yield page


@pytest.fixture
def wide(browser: Browser, report: Path) -> Iterator[Page]:
    """The page in a wide window of the test's own: for what changes it, and does not depend on the window's size."""
    with opened(browser, report, *WIDE) as page:
        yield page


@contextmanager
def opened(
    browser: Browser,
    report: Path,
    width: int,
    height: int,
    scheme: Literal["light", "dark"] = "light",
    *,
    closed: bool = False,
) -> Iterator[Page]:
    """A window with `report`, and its details unless `closed`. Fails where it complains, or asks for other files."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    if not closed:
        page.evaluate("document.querySelectorAll('#details').forEach(it => it.open = true)")
    yield page
    assert complaints == []
    assert requests == [report.as_uri()]
    context.close()


def test_it_fits_the_window(page, tmp_path):
    folder = Path(os.environ.get("SPARKSPLIT_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"report-{page.viewport_size['width']}.png"
    page.screenshot(path=file, full_page=True)
    assert file.stat().st_size > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_tables_scroll_in_their_own_box_and_on_a_phone_only(page):
    widths = """[...document.querySelectorAll('section > .scroll, .predicted > .scroll')]
        .map(it => it.scrollWidth - it.clientWidth)"""
    inner = page.evaluate(widths)
    assert len(inner) == 10
    assert any(inner) == (page.viewport_size["width"] == PHONE[0])


def test_the_details_are_closed_until_asked_for_and_on_paper_they_are_there(browser, report):
    with opened(browser, report, *PHONE, closed=True) as page:
        answer, evidence = page.locator("#answer"), page.locator("#evidence")
        assert answer.is_visible() and not evidence.is_visible()
        page.get_by_text("Details", exact=True).click()
        assert evidence.is_visible()
    with opened(browser, report, *WIDE, closed=True) as page:
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert page.locator("#evidence").is_visible()


def test_every_picture_is_seen_whole(page):
    width = page.viewport_size["width"]
    pictures = page.locator("svg").all()
    assert len(pictures) == 13
    for picture in pictures:
        assert picture.is_visible()
        box = picture.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 150
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    assert page.evaluate(OUTSIDE) == []


def test_letters_are_large_enough_to_read(page):
    assert page.evaluate(SMALLEST) >= 8


def test_pictures_are_painted(page):
    """A clip path or marker whose id was lost would leave them empty."""
    lost = page.evaluate(
        """() => [...document.querySelectorAll('svg use')]
        .map(use => use.getAttribute('xlink:href')).filter(href => !document.querySelector(href))"""
    )
    assert lost == []


def test_a_table_sorts_by_mouse(wide):
    table = wide.locator("#table-measured")
    head = table.locator("th", has=wide.get_by_role("button", name="rows/s"))
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = _column(wide, "#table-measured", "rows/s")
    assert values == sorted(values)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert _column(wide, "#table-measured", "rows/s") == values[::-1]
    assert table.locator("[aria-sort]").count() == 1


def test_a_table_sorts_by_keyboard(wide):
    wide.locator("#table-measured").get_by_role("button", name="strategy").focus()
    wide.keyboard.press("Enter")
    after = _column(wide, "#table-measured", "strategy")
    assert after == ["batch", "epoch", "epoch-delayed", "local, H = 8", "local, H = 32, nesterov", "single"]
    wide.keyboard.press("Space")
    assert _column(wide, "#table-measured", "strategy") == after[::-1]


def test_missing_values_are_last_in_both_directions(wide):
    name = "passes to target"
    button = wide.locator("#table-virtual").get_by_role("button", name=name)
    for _ in range(2):
        button.click()
        values = _column(wide, "#table-virtual", name)
        assert "" in values
        assert values[: values.index("")] == [value for value in values if value != ""]


def test_only_rows_with_the_words_that_are_asked_for_are_shown(wide):
    rows = wide.locator("#table-runs tbody tr")
    everything = rows.filter(visible=True).count()
    field = wide.locator("input[data-table=table-runs]")
    field.fill("EPOCH-delayed virtual")
    assert rows.filter(visible=True).count() == 20 and everything == 110
    field.fill("")
    assert rows.filter(visible=True).count() == everything


def test_it_is_dark_where_that_is_asked_for_and_light_on_paper(browser, report, tmp_path):
    colours = """() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('#overview svg text')).fill]"""
    with opened(browser, report, *WIDE, "dark") as page:
        folder = Path(os.environ.get("SPARKSPLIT_SCREENSHOTS") or tmp_path)
        page.screenshot(path=folder / "report-dark.png", full_page=True)
        assert page.evaluate(colours) == ["rgb(24, 24, 24)", "rgb(232, 232, 229)"]
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(26, 26, 26)"]


def test_paper_keeps_the_pictures(wide):
    wide.emulate_media(media="print")
    pictures = wide.locator("svg").all()
    assert len(pictures) == 13
    for picture in pictures:
        assert picture.is_visible()
        assert picture.bounding_box()["width"] > 250
        assert picture.evaluate("it => getComputedStyle(it.closest('figure')).breakInside") == "avoid"
    assert wide.locator("thead").first.evaluate("it => getComputedStyle(it).display") == "table-header-group"
    wide.set_viewport_size({"width": 680, "height": 960})  # A4 within its margins
    assert wide.evaluate("Math.max(...[...document.querySelectorAll('table')].map(it => it.offsetWidth))") <= 680


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with long and hostile names."""
    text = json.dumps(results())
    for strategy, name in ((LOCAL, NASTY), (DELAYED, "a-name-without-any-place-to-break-it-" * 3)):
        text = text.replace(json.dumps(strategy), json.dumps(name))
    changed = json.loads(text)
    changed["data"]["path"] = changed["model"] = "hdfs://name-node.example:8020/" + "a-folder/" * 30
    file = tmp_path_factory.mktemp("hostile") / "report.html"
    file.write_text(rendered(changed), encoding="utf-8")
    return file


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_long_and_hostile_names_stay_in_their_place(browser, hostile, size):
    with opened(browser, hostile, *size) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.evaluate(OUTSIDE) == []


@pytest.fixture(scope="module")
def long_diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A diagnosis with long names."""
    long = {f"a.very.long.key.of.a.setting.{index}": "a-value-without-any-place-to-break-it" for index in range(3)}
    advice = replace(answer().keeping[0], settings=long)
    file = tmp_path_factory.mktemp("diagnosis") / "diagnosis.html"
    file.write_text(
        diagnosis_page(diagnosis(answer=answer(keeping=[advice]), hosts=["a-host." * 40])), encoding="utf-8"
    )
    return file


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_page_of_a_diagnosis_fits_the_window_too(browser, long_diagnosis, size):
    with opened(browser, long_diagnosis, *size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.locator("svg").count() == 4
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(SMALLEST) >= 8


def test_tables_beside_pictures_are_seen_whole_at_a_desk(browser, tmp_path):
    file = tmp_path / "diagnosis.html"
    file.write_text(diagnosis_page(diagnosis()), encoding="utf-8")
    with opened(browser, file, *WIDE) as page:
        page.evaluate("document.getElementById('details').open = true")
        boxes = "[...document.querySelectorAll('.pictures .scroll')].map(it => it.scrollWidth - it.clientWidth)"
        cut = page.evaluate(boxes)
        assert cut == [0, 0]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_page_of_a_preparation_fits_the_window_too(browser, tmp_path, size):
    record = preparation(output="hdfs://name-node.example:8020/" + "a-folder/" * 30)
    trouble = replace(record.troubles[0], why="a-reason-without-any-place-to-break-it" * 5)
    file = tmp_path / "diagnosis.html"
    file.write_text(preparation_page(replace(record, troubles=[trouble])), encoding="utf-8")
    with opened(browser, file, *size) as page:
        folder = Path(os.environ.get("SPARKSPLIT_SCREENSHOTS") or tmp_path)
        page.screenshot(path=folder / f"preparation-{size[0]}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


# Names of the texts of pictures that lie outside their picture.
OUTSIDE = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1;
  }).map(text => `${svg.getAttribute('aria-label')}: ${text.textContent}`);
})"""

# The height in pixels of the smallest letters of any picture, as they are shown.
SMALLEST = """() => Math.min(...[...document.querySelectorAll('svg text')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b)))"""


def _column(page: Page, table: str, name: str) -> list[float | str]:
    """The values of a column in the order shown."""
    found = page.evaluate(
        """([table, name]) => {
          const heads = [...document.querySelectorAll(`${table} thead th`)];
          const index = heads.findIndex(head => head.textContent.trim() === name);
          return [...document.querySelectorAll(`${table} tbody tr`)].map(row => row.cells[index].dataset.value);
        }""",
        [table, name],
    )
    assert found
    try:
        return [float(value) if value else "" for value in found]
    except ValueError:
        return found


def _unavailable(reason: str) -> NoReturn:
    """Skip, or fail where a skip would go unseen."""
    if os.environ.get("CI"):
        pytest.fail(f"no browser for the tests: {reason}", pytrace=False)
    pytest.skip(f"no browser for the tests: {reason}")
