"""A figure, measured while the site is built, above the code that draws it."""

import hashlib
import os
from pathlib import Path

import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: Of a screen, per inch; figures have twice as many.
PIXELS = 100
STYLE = {"figure.constrained_layout.use": True, "axes.spines.top": False, "axes.spines.right": False}


class Drawn(SphinxDirective):
    """``drawn``: the argument says what the figure shows, the content draws it with matplotlib."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        folder = Path(self.env.doctreedir) / "drawn"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha1(code.encode()).hexdigest()[:12]}.png"
        if not path.exists():
            with plt.rc_context(STYLE):
                exec(compile(code, self.get_location(), "exec"), {})
                plt.gcf().savefig(path, dpi=2 * PIXELS)
            plt.close("all")
        here = Path(self.env.doc2path(self.env.docname)).parent
        image = nodes.image(uri=Path(os.path.relpath(path, here)).as_posix(), alt=self.arguments[0], scale=50)
        return [image, nodes.literal_block(code, code, language="python")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw without a screen."""
    plt.switch_backend("Agg")
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
