"""Formulas as MathML, which browsers draw without a script.

The site brings the font STIX Two Math, whose bars and parentheses grow. The font is the one of the package ziamath.
"""

from importlib.resources import files

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def mathml(node: nodes.Element, display: str) -> str:
    """The formula, or a warning and what there is of it."""
    formula = node.astext().replace("{aligned}", "{align*}")  # which the converter knows by this name alone
    found = convert(formula, display=display)
    if "\\" in found or "<mi>&</mi>" in found:
        logger.warning("this formula cannot be written in MathML: %s", formula, location=node)
    return found


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """One formula in a line of text."""
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """One formula by itself, which scrolls where the screen is narrow."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(mathml(node, "block") + "</div>")
    raise nodes.SkipNode


def add_font(app: Sphinx) -> None:
    """Copy the font to the static files of the site."""
    app.config.html_static_path.append(str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer."""
    app.connect("builder-inited", add_font, priority=100)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
