"""Pictures of the web page for the documentation, taken in chromium; `make docs` takes them where `make browser` has installed it.

Two runs never draw the same pixels, so nothing compares them.
"""

from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, Final

from png_palette import with_palette
from support.browser.scene import fill
from support.browser.window import page_of
from support.embedded.up_process import TriedCluster

ROOT: Final = Path(__file__).resolve().parents[1]
LARGEST: Final = 150_000
"""bytes of a picture"""
SIZE: Final[Any] = {"width": 1280, "height": 920}
FLEET: Final = (
    "dgx1-v100=11,dgx-a100=3,hgx-h100=10,atlas-800=1,a100-bridged=1,p40-share=2,dgx1-v100-measured=4"  # nearly full
)
VIEWS: Final = {
    "cluster": "",
    "node": "nodes/dgx1-v100-measured-0",
    "pod": "pods/research/too-many",
    "plan": "plan",
}


def take(root: Path = ROOT) -> None:
    """Take all pictures, if there is a browser; else those that exist stay."""
    chromium = which("chromium") or which("chromium-browser")
    if not chromium or not find_spec("playwright"):
        print("kept docs/pictures/page-*.png: `make browser` installs what takes them")
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not installed by `make setup`

    with (
        TemporaryDirectory() as folder,
        TriedCluster(Path(folder), "--fleet", FLEET) as running,
        sync_playwright() as playwright,
    ):
        fill(running, Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce").new_page()
        for name, path in VIEWS.items():
            _open(page, page_of(running) + path, name)
            file = root / f"docs/pictures/page-{name}.png"
            file.write_bytes(_small(page.screenshot()))
            print(f"wrote {file.relative_to(root)}")
        browser.close()


def _open(page: Any, address: str, name: str) -> None:  # noqa: ANN401 - playwright's
    """Wait until a view shows all that it will."""
    page.goto(address)
    page.locator(".live", has_text="live").wait_for()
    if name == "cluster":
        page.locator(".waiting .row-text:not(:empty)").nth(1).wait_for()
    if name == "plan":
        page.get_by_role("button", name="Plan it").click()
        page.get_by_role("heading", name="on the picture").wait_for()
        page.locator(".outcome").scroll_into_view_if_needed()
    page.locator(".skeleton").first.wait_for(state="detached")
    page.evaluate("document.fonts.ready")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def _small(picture: bytes) -> bytes:
    """The picture in 256 colours; SystemExit if it is too large for the repository."""
    picture = with_palette(picture)
    if len(picture) > LARGEST:
        raise SystemExit(f"a picture has {len(picture)} bytes; the limit is {LARGEST}")
    return picture


if __name__ == "__main__":
    take()
