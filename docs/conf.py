"""How is the site built? Offline, from these pages, the docstrings and the examples, with warnings as errors."""

import inspect
import sys
from importlib.util import find_spec
from pathlib import Path

import fwflow

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from reference import MEMBERS, NOT_INSTALLED  # noqa: E402

project = "fwflow"
author = "The fwflow developers"
copyright = author
version = release = fwflow.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "catalogue",
    "commands",
    "drawn",
    "generated",
    "mathml",
    "repository_links",
    "two_themes",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_block"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "fwflow"
html_static_path = ["_static"]
html_css_files = ["site.css", "reference.css"]
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "fwflow"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
# These pages have no pages below them, so a list of pages would only take room from their code.
html_sidebars = {page.stem: [] for page in HERE.glob("*.md")} | {"gallery/*": []}

# Where examples live in the repository, and which page of the site stands for a file of it.
repository_pages = {
    r"\.\./examples/(\w+)\.py": r"gallery/\1.rst",
}

autosummary_generate = True
autosummary_context = {"shown": MEMBERS}
autodoc_preserve_defaults = True
# PyTorch and optax are large, and the reference needs only the docstrings of the modules that use them.
autodoc_mock_imports = [*NOT_INSTALLED]
autodoc_typehints = "none"  # the sections on parameters say it in words
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False
default_role = "autolink"
# Bases and types of other packages have their own sites, which are not asked for: the build is offline.
nitpick_ignore_regex = [(r"py:.*", r"(numpy|scipy|sklearn|matplotlib|torch|optax)\..*")]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "ExampleTitleSortKey",
    # Every example is executed, those with PyTorch only where it is installed: it is no part of the extra `docs`.
    "filename_pattern": r"\.py$" if find_spec("torch") else r"/(?!pytorch_)\w+\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "image_scrapers": ("two_themes",),
    "reset_modules": ("two_themes.reset",),
    "matplotlib_animations": False,
    "plot_gallery": True,
    "capture_repr": (),
    "min_reported_time": 10**6,  # seconds of this machine tell readers nothing
    "show_memory": False,
    "write_computation_times": False,
    "thumbnail_size": (400, 280),
}


def _signature(app, what, name, value, options, signature, annotation):
    """Return the signature of the constructor, which a base class that is a mock hides."""
    if what != "class" or name != "fwflow.torch.LMO":
        return None
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in list(inspect.signature(value.__init__).parameters.values())[1:]
    ]
    return str(inspect.Signature(parameters)), None


def setup(app):
    """Connect the functions of this file."""
    app.connect("autodoc-process-signature", _signature)
