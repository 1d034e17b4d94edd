"""The constants of the advisor are those that its page tells."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
MOST = 74
"""A rule that needs another constant takes the place of one."""


def constants(folder: Path) -> Iterator[tuple[str, float]]:
    """Numbers at the top of modules, by module and name."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            target = node.target if isinstance(node, ast.AnnAssign) else None
            if not isinstance(target, ast.Name) or node.value is None:  # type: ignore[union-attr]
                continue
            if (value := number(node.value)) is not None:  # type: ignore[union-attr]
                yield f"{path.stem}.{target.id}", value


def number(node: ast.expr) -> float | None:
    """A number as it is written, ``1 << 20`` included."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):
        left, right = number(node.left), number(node.right)
        return None if left is None or right is None else int(left) << int(right)
    value = node.value if isinstance(node, ast.Constant) else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def test_the_page_tells_every_constant() -> None:
    found = list(constants(ROOT / "models" / "advisor"))
    page = (ROOT / "docs" / "explanation" / "advice.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", page, re.MULTILINE)
    told = sorted((name, float(value)) for name, value in rows)
    assert told == sorted((name, float(value)) for name, value in found)
    assert len(found) <= MOST
