"""The report of a comparison, in a real browser."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scrapy_threadpool.compare.document import make_document
from scrapy_threadpool.compare.plan import Download, Item, Run, Variant
from scrapy_threadpool.compare.rounds import Target

from .parts import need
from .waiting import wait_until

pytest.importorskip("plotly")
pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

from scrapy_threadpool.compare.report import make_report

EVIL = "http://a/</script><script>window.evil=1</script><img src=x onerror='window.evil=1'>&b"
DESKTOP, PHONE = (1200, 900), (390, 844)


def make_run(dice: random.Random, workers: int, speed: float, pages: int, **values: Any) -> Run:
    """Return a run of a crawl that might have been: *workers* 0 is one without a pool."""
    seconds = pages / speed
    downloads = []
    for number in range(pages):
        start = seconds * number / pages
        outcome = dice.choice(["200"] * 40 + ["301", "404", "503", "DownloadTimeoutError"])
        url = EVIL if number == 3 else f"http://shop.example/catalogue/{'book-' * 20}{number}.html"
        worker = f"books-worker-{number % workers + 1}" if workers else ""
        end = start + dice.uniform(0.2, 0.9) * seconds / pages * (workers or 12)
        downloads.append(Download(worker, url, outcome, start, end))
    return Run(
        **{
            "spider": "books",
            "handler": "ThreadPoolDownloadHandler" if workers else "HTTP11DownloadHandler",
            "reactor": True,
            "workers": [f"books-worker-{n}" for n in range(1, workers + 1)],
            "finish_reason": "finished",
            "seconds": seconds,
            "pages": pages,
            "cpu_seconds": seconds * 0.9,
            "loop_cpu_seconds": seconds * 0.8,
            "peak_memory": 100_000_000,
            "received_bytes": 1,
            "latencies": [dice.lognormvariate(-5 if workers else -3, 0.6) for _ in range(pages)],
            "lag": [(n / 50, dice.expovariate(100)) for n in range(int(seconds * 50))],
            "errors": {"download: DownloadTimeoutError": 2},
            "outcomes": {},
            "pages_by_worker": {f"books-worker-{n}": 3 for n in range(1, workers + 1)},
            "downloads": downloads,
            **values,
        }
    )


SOON = 30


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a long crawl with three variants, and with differences."""
    dice = random.Random(1)
    variants = [
        Variant("twisted", pool=False),
        Variant("pool-8", pool=True, threads=8),
        Variant("pool-64", pool=True, threads=64),
    ]
    found = {
        "twisted": [make_run(dice, 0, dice.uniform(80, 120), 700) for _ in range(3)],
        "pool-8": [make_run(dice, 8, dice.uniform(120, 170), 700) for _ in range(3)],
        "pool-64": [make_run(dice, 64, dice.uniform(150, 200), 20_000) for _ in range(3)],
    }
    item = Item(EVIL, "digest", {"price": '"<b>1</b>"'})
    found["pool-8"][1].items.append(item)
    target = Target("books", "spider", {"LOG_LEVEL": "INFO"}, {"site": EVIL}, [], 500)
    page = make_report(make_document(target, variants, found), found)
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page, encoding="utf-8")
    return file


@contextmanager
def browser(report: Path, size: tuple[int, int], *, dark: bool = False) -> Iterator[WebDriver]:
    """Open *report* in Chromium; a small window is that of a phone."""
    programs = need("chromium", "chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={size[0]},{size[1]}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if size == PHONE:
        metrics = {"width": size[0], "height": size[1], "pixelRatio": 2, "touch": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    driver = webdriver.Chrome(options=options, service=Service(programs["chromedriver"]))
    try:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.get(report.as_uri())
        wait_until(lambda: not driver.find_elements(By.CSS_SELECTOR, ".picture:not(.drawn)"), SOON)
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def driver(report: Path) -> Iterator[WebDriver]:
    """A browser at a desk, with the report open."""
    with browser(report, DESKTOP) as driver:
        yield driver


def is_in_view(driver: WebDriver) -> bool:
    """Return whether nothing but the table has to be scrolled sideways."""
    script = "return [document.documentElement.scrollWidth, window.innerWidth]"
    page, window = driver.execute_script(script)
    return bool(page <= window)


def color(driver: WebDriver, selector: str, name: str) -> tuple[int, ...]:
    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    text = driver.execute_script(script, selector, name)
    return tuple(int(number) for number in text.split("(")[1].rstrip(")").split(",")[:3])


def test_it_draws_every_picture_without_an_error(driver: WebDriver) -> None:
    assert driver.get_log("browser") == []
    headings = [heading.text for heading in driver.find_elements(By.TAG_NAME, "h2")]
    assert headings == [
        "All figures",
        "Pages per second",
        "Download latency",
        "Event-loop lag",
        "Downloads: Twisted-only",
        "Downloads: 8 threads",
        "Downloads: 64 threads",
    ]
    pictures = driver.find_elements(By.CLASS_NAME, "picture")
    assert len(pictures) == 6
    drawn = "return arguments[0].querySelectorAll(arguments[1]).length"
    count = [
        driver.execute_script(
            drawn, picture, ".scatterlayer path.point, .scatterlayer path.js-line, .barlayer path"
        )
        for picture in pictures
    ]
    assert count[0] == 3 * (3 + 1)  # every round is a point, and a line for the median
    assert count[1] == count[2] == 3
    assert count[3:] == [700, 700, 1000]  # of 20,000
    assert "19000 more are not" in driver.find_element(By.TAG_NAME, "body").text
    assert is_in_view(driver)


def test_hovering_over_a_download_tells_url_status_and_seconds(driver: WebDriver) -> None:
    bars = driver.find_elements(By.CSS_SELECTOR, "#figure-4 .bars path")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", bars[0])
    ActionChains(driver).move_to_element(bars[0]).perform()
    find = "return document.querySelector('#figure-4 .hoverlayer')?.textContent || ''"
    wait_until(lambda: "shop.example" in driver.execute_script(find), SOON)
    text = driver.execute_script(find)
    assert "http://shop.example/catalogue/" in text
    assert "books-worker-" in text
    assert "200 in 0." in text
    assert text.count(" s") >= 1


def test_hovering_over_a_curve_tells_its_value(driver: WebDriver) -> None:
    picture = driver.find_element(By.ID, "figure-1")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", picture)
    find = "return document.querySelector('#figure-1 .hoverlayer')?.textContent || ''"
    script = """
        const path = document.querySelector('#figure-1 .scatterlayer path.js-line');
        const point = path.getPointAtLength(path.getTotalLength() / 2);
        const where = point.matrixTransform(path.getScreenCTM());
        return [Math.round(where.x), Math.round(where.y)];
    """
    x, y = driver.execute_script(script)
    actions = ActionChains(driver)
    actions.w3c_actions.pointer_action.move_to_location(x, y)
    actions.perform()
    wait_until(lambda: "% within" in driver.execute_script(find), SOON)


def test_it_fits_a_phone(report: Path) -> None:
    with browser(report, PHONE) as driver:
        assert driver.get_log("browser") == []
        assert driver.execute_script("return window.innerWidth") == PHONE[0]
        assert is_in_view(driver)
        widths = "return [...document.querySelectorAll('.picture svg')].map(e => e.clientWidth)"
        assert all(300 < width <= PHONE[0] for width in driver.execute_script(widths) if width)
        size = "return parseFloat(getComputedStyle(document.querySelector('section > p')).fontSize)"
        assert driver.execute_script(size) >= 14


def test_it_is_dark_where_the_reader_wants_that(report: Path) -> None:
    with browser(report, DESKTOP, dark=True) as driver:
        assert max(color(driver, "body", "backgroundColor")) < 60
        for selector in ("#figure-0 .xtick text", "#figure-4 .ytick text"):
            assert min(color(driver, selector, "fill")) > 200
        # And it follows when that changes.
        scheme = {"name": "prefers-color-scheme", "value": "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        assert min(color(driver, "body", "backgroundColor")) > 240
        wait_until(lambda: max(color(driver, "#figure-0 .xtick text", "fill")) < 60, SOON)


def test_what_comes_from_the_site_is_text(driver: WebDriver) -> None:
    """A URL is not trusted: not in the page, nor in the data, nor in what hovers."""
    assert driver.execute_script("return window.evil") is None
    assert EVIL in driver.find_element(By.ID, "differences").text
    script = "return document.querySelector('#figure-3').data.flatMap(t => t.customdata || [])"
    urls = [hover[0] for hover in driver.execute_script(script)]
    assert any("&lt;/script&gt;" in url for url in urls)
    assert not any("<" in url for url in urls)


def test_it_needs_no_network_and_stays_small(driver: WebDriver, report: Path) -> None:
    requests = [
        entry["message"]
        for entry in driver.get_log("performance")
        if '"Network.requestWillBeSent"' in entry["message"]
    ]
    assert any(report.name in request for request in requests)
    assert not any('"url":"http' in request for request in requests)
    assert report.stat().st_size < 7_000_000
