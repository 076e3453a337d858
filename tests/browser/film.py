"""A film of a page, with the shell below it: an animated picture that a README can show.

The browser sends a picture whenever something has changed; what was typed meanwhile is written below it. Nothing is
arranged: only waits are cut, and what is too long is played faster.
"""

import base64
import io
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from stellwerk.ids import SystemClock

SIZE = {"width": 800, "height": 520}
_LINES, _LINE, _MARGIN = 3, 22, 12
_SHORTEST, _LONGEST, _LAST, _WHOLE = 0.1, 0.9, 2.5, 11.0


@dataclass
class Film:
    path: Path | None
    """Where it is written; without one, nothing is recorded."""
    _screen: Any = None
    _typed: list[tuple[float, str]] = field(default_factory=list)
    _scenes: list[tuple[float, bytes, list[str]]] = field(default_factory=list)
    """Since when, the page, and the last lines of the shell."""

    def shell(self, line: str) -> None:
        """This is written in the shell now."""
        self._typed.append((SystemClock().now(), line))

    async def begin(self, page: Any) -> None:
        if self.path is None:
            return
        self._screen = await page.context.new_cdp_session(page)
        self._screen.on("Page.screencastFrame", self._take)
        await self._screen.send("Page.startScreencast", {"format": "png"})

    async def end(self) -> None:
        """That was all; it is written."""
        if self.path is not None:
            await self._screen.send("Page.stopScreencast")
            self._write(self.path)

    async def _take(self, frame: dict[str, Any]) -> None:
        since, picture = frame["metadata"]["timestamp"], base64.b64decode(frame["data"])
        lines = [line for written, line in self._typed if written <= since][-_LINES:]
        if self._scenes and since - self._scenes[-1][0] < _SHORTEST:
            since = self._scenes.pop()[0]  # an eye would not have seen it
        self._scenes.append((since, picture, lines))
        await self._screen.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def _write(self, path: Path) -> None:
        seconds = [min(later - since, _LONGEST) for (since, *_), (later, *_) in pairwise(self._scenes)]
        faster = min(1.0, (_WHOLE - _LAST) / sum(seconds))
        drawn = [_drawn(picture, lines) for _, picture, lines in self._scenes]
        palette = _beside(drawn[len(drawn) // 2], drawn[-1]).quantize(96)
        first, *others = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in drawn]
        milliseconds = [round(100 * each) * 10 for each in (*(each * faster for each in seconds), _LAST)]
        first.save(path, save_all=True, append_images=others, duration=milliseconds, loop=0)


def _beside(*pictures: Image.Image) -> Image.Image:
    """For the colours of both."""
    whole = Image.new("RGB", (sum(one.width for one in pictures), pictures[0].height))
    for number, one in enumerate(pictures):
        whole.paste(one, (number * one.width, 0))
    return whole


def _drawn(picture: bytes, lines: list[str]) -> Image.Image:
    page = Image.open(io.BytesIO(picture)).convert("RGB")
    whole = Image.new("RGB", (page.width, page.height + _LINES * _LINE + 2 * _MARGIN), "#0d1117")
    whole.paste(page)
    pen, font = ImageDraw.Draw(whole), ImageFont.load_default(16)
    for number, line in enumerate(lines):
        colour = "#ff7b72" if "kill" in line else "#e6edf3" if line.startswith("$") else "#7ee787"
        pen.text((2 * _MARGIN, page.height + _MARGIN + number * _LINE), line, colour, font)
    return whole
