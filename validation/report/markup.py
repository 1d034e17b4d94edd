"""The little markup that report texts may use: blank lines part paragraphs, **bold**, `code`; all else is
escaped.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_INLINE = re.compile(r"`([^`\n]+)`|\*\*(.+?)\*\*", re.DOTALL)


def inline(text: str) -> Markup:
    """``text`` as HTML with **bold** and `code`; inside code nothing else is marked up."""
    out: list[Markup] = []
    at = 0
    for found in _INLINE.finditer(text):
        out.append(escape(text[at : found.start()]))
        code, bold = found.groups()
        if code is not None:
            out.append(Markup("<code>{}</code>").format(code))
        else:
            out.append(Markup("<strong>{}</strong>").format(inline(bold)))
        at = found.end()
    out.append(escape(text[at:]))
    return Markup("").join(out)


def paragraphs(text: str) -> Markup:
    """``text`` as HTML paragraphs."""
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return Markup("\n").join(Markup("<p>{}</p>").format(inline(part)) for part in parts if part)
