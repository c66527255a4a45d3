"""Strict YAML: what could surprise is refused, and errors do not quote the text, which may hold a password."""

from __future__ import annotations

from typing import Any

import yaml


def parse_yaml(text: str) -> object:
    """The document in a text.

    Raises:
        ValueError: it is not YAML, or has an alias (a small file can unfold without end), a key that stands twice in
            one mapping, or a tag beyond plain data.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = f"line {exc.problem_mark.line + 1}: " if exc.problem_mark else ""
        raise ValueError(f"{line}{exc.problem or exc.context}") from None
    except yaml.reader.ReaderError as exc:
        raise ValueError(f"character {exc.position + 1} is not allowed: {exc.reason}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"a date or number cannot be read ({exc})") from None


class _Loader(yaml.SafeLoader):
    """A safe loader that also refuses aliases and doubled keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            problem = "anchors and aliases are not allowed; what entries share goes under defaults:"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key.value[:80]!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        return super().construct_mapping(node, deep)
