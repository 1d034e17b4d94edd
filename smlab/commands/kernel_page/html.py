"""From what a kernel's page says to its one HTML file, by the report's style sheet and rules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from smlab.commands.kernel_page.colours import colour_rules
from smlab.commands.kernel_page.content import KernelPage
from smlab.hw_bench.files import write_atomic
from smlab.validation.report.page import CONTENT_POLICY, page_environment, style_sheet

TEMPLATE = "kernel.html.j2"


def render_pages(pages: Sequence[KernelPage]) -> str:
    """The pages of one or several kernels as one document, which needs nothing from outside."""
    environment = page_environment({TEMPLATE: _resource(TEMPLATE)})
    return environment.get_template(TEMPLATE).render(
        pages=pages,
        policy=CONTENT_POLICY,
        style=style_sheet() + Markup(_resource("kernel.css")) + colour_rules(),
    )


def write_pages(pages: Sequence[KernelPage], path: Path) -> None:
    """Write the document whole or not at all."""
    write_atomic(path, render_pages(pages))


def _resource(name: str) -> str:
    return resources.files("smlab.commands.kernel_page").joinpath(name).read_text(encoding="utf-8")
