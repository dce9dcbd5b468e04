"""Renders chat templates with Jinja2, set up as the transformers library does, for comparison.

Reads a JSON list of {"source": ..., "variables": {...}} from its input and writes a list of {"text": ...} or {"error": ...}.
"""

import functools
import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model would write and leaves the text alone."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """A namespace without attributes that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore-prefixed attribute")


class Dict:
    """dict without its class's attributes."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime(2026, 12, 1, 7, 5, 9).strftime(form)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, dict=Dict(), namespace=Namespace)


@functools.lru_cache
def template(source):
    return env.from_string(source)


def render(case):
    try:
        return {"text": template(case["source"]).render(**case["variables"])}
    except Exception as e:
        return {"error": type(e).__name__ + ": " + str(e)}


json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
