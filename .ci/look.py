"""`make look`: how a page looks in headless Chromium, at 1280 and at 420 pixels, light and dark.

    python .ci/look.py results/validate/report.html [--chromium PATH] [--out FOLDER] [--max-screens 12]

Takes a screenshot of the whole page at each width in each colour scheme and fails

- where the page scrolls sideways (figures have boxes of their own),
- where the browser reports an error, or a picture is missing,
- where text is smaller than 12 pixels, or has less contrast than WCAG's AA asks,
- where the page as it opens is longer than so many screens of 900 pixels at 1280.

It talks to the browser through a pipe (the DevTools protocol), so it needs nothing but Chromium. Without
one it says so and exits with status 3.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WIDTHS = (1280, 420)
SCREEN_HEIGHT = 900
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")
NO_BROWSER = 3

MEASURE = r"""
(() => {
  const root = document.documentElement, wide = [];
  const inBox = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return true; return false; };
  for (const e of document.querySelectorAll('body *')) {
    const r = e.getBoundingClientRect();
    if (r.width > 0 && r.right > root.clientWidth + 1 && !inBox(e))
      wide.push(`${e.tagName.toLowerCase()}${e.id ? '#' + e.id : ''} ${e.className} to ${Math.round(r.right)}
      px`);
  }
  const small = new Set();
  for (const e of document.querySelectorAll('body *'))
    if (parseFloat(getComputedStyle(e).fontSize) < 12 && e.checkVisibility()
        && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
      small.add(`${e.tagName.toLowerCase()} ${e.className}: ${getComputedStyle(e).fontSize}`);
  const broken = [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.alt.slice(0, 60));
  const parts = c => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const linear = x => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ground = e => { for (let p = e; p; p = p.parentElement) {
    const c = parts(getComputedStyle(p).backgroundColor);
    if (c.length < 4 || c[3] > 0.99) return c.slice(0, 3); } return [255, 255, 255]; };
  const faint = new Set();
  for (const e of document.querySelectorAll('body *'))
    if (e.checkVisibility({ opacityProperty: true })
        && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) {
      const style = getComputedStyle(e), drawn = e instanceof SVGElement;
      const a = light(parts(drawn ? style.fill : style.color));
      const b = light(ground(drawn ? e.ownerSVGElement : e));
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), px = parseFloat(style.fontSize);
      if (ratio < (px >= 24 || (px >= 18.5 && style.fontWeight >= 700) ? 3 : 4.5))
        faint.add(`${e.tagName.toLowerCase()} ${drawn ? '' : e.className}: ${ratio.toFixed(2)}`);
    }
  return JSON.stringify({ faint: [...faint].slice(0, 5),
    height: root.scrollHeight, width: root.scrollWidth, client: root.clientWidth,
    wide: wide.slice(0, 5), broken,
    small: [...small].slice(0, 5) });
})()
"""


class Browser:
    """A headless Chromium behind a pipe; use it as a context manager."""

    def __init__(self, program: str) -> None:
        # A child of the browser may still write into its profile while that is removed.
        self.profile = tempfile.TemporaryDirectory(prefix="look-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            program,
            *(
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ),
            *(
                "--no-first-run",
                "--disable-extensions",
                f"--user-data-dir={self.profile.name}",
                "about:blank",
            ),
        ]
        # The browser reads its file 3 and writes its file 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "look", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._number = 0
        self.session = ""
        self.errors: list[str] = []

    def __enter__(self) -> Browser:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a DevTools method and wait for its answer; errors of the page that come meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']['message']}")
                return dict(told["result"])

    def wait_for(self, event: str) -> None:
        """Wait until the page reports ``event``."""
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        told: dict[str, Any] = json.loads(line)
        method, what = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(what["exceptionDetails"].get("text")))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.errors.append(f"console.{what['type']}")
        return told


def look(page: Path, program: str, out: Path, max_screens: float) -> list[str]:
    """What is wrong with the page, a line for each; screenshots go into ``out``."""
    wrong = []
    out.mkdir(parents=True, exist_ok=True)
    with Browser(program) as browser:
        for width, scheme in itertools.product(WIDTHS, SCHEMES):
            at = f"at {width}, {scheme},"
            browser.ask(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=SCREEN_HEIGHT,
                deviceScaleFactor=1,
                mobile=width < 600,
            )
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.ask("Emulation.setEmulatedMedia", features=features)
            browser.ask("Page.navigate", url=page.resolve().as_uri())
            browser.wait_for("Page.loadEventFired")
            seen = json.loads(browser.ask("Runtime.evaluate", expression=MEASURE)["result"]["value"])
            screens = seen["height"] / SCREEN_HEIGHT
            print(f"{page.name} {at} {seen['height']} px, {screens:.1f} screens")
            if seen["width"] > seen["client"] or seen["wide"]:
                what = "; ".join(seen["wide"]) or f"{seen['width']} px wide"
                wrong.append(f"{at} the page scrolls sideways: {what}")
            wrong += [f"{at} a picture is missing: {alt}" for alt in seen["broken"]]
            wrong += [f"{at} text is under 12 px: {what}" for what in seen["small"]]
            wrong += [f"{at} text has too little contrast: {what}" for what in seen["faint"]]
            if width == WIDTHS[0] and screens > max_screens:
                wrong.append(f"{at} the page has {screens:.1f} screens, at most {max_screens:g} asked")
            for name, height in (("", seen["height"]), ("-first", SCREEN_HEIGHT)):
                clip = {"x": 0, "y": 0, "width": width, "height": min(height, 16_000), "scale": 1}
                shot = browser.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
                picture = out / f"{page.stem}-{width}-{scheme}{name}.png"
                picture.write_bytes(base64.b64decode(shot["data"]))
        wrong += [f"the browser says: {error}" for error in browser.errors]
    return wrong


def main() -> int:
    """The status: 0 as it should be, 1 something is wrong, 2 no such page, 3 no browser."""
    parser = argparse.ArgumentParser(description="Look at a report in headless Chromium.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--chromium", default=next(filter(None, map(shutil.which, BROWSERS)), None))
    parser.add_argument("--out", type=Path, default=Path("results/look"))
    parser.add_argument("--max-screens", type=float, default=12.0)
    options = parser.parse_args()
    if not options.page.is_file():
        print(f"{options.page}: no such page; `make validate` makes it", file=sys.stderr)
        return 2
    if options.chromium is None:
        print(f"not looked at: no Chromium here (tried {', '.join(BROWSERS)})", file=sys.stderr)
        return NO_BROWSER
    wrong = look(options.page, options.chromium, options.out, options.max_screens)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"screenshots in {options.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
